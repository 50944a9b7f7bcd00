//! Orders of certificates: the account, the order, its challenges, the certificate.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use instant_acme::{
    Account, AuthorizationStatus, ChallengeType, Identifier, NewAccount, NewOrder, Order,
    OrderStatus, RetryPolicy, SuggestedWindow,
};
use windlass_server::outbound::Outbound;
use zeroize::Zeroizing;

use super::challenges::{Answering, Challenges};
use super::client::DirectoryClient;
use super::failure::Failure;
use super::issued::Issued;
use super::options::{Contact, DirectoryUrl, Domain};
use super::renewal::{Authority, Suggestion};
use super::schedule::Window;
use super::state::{State, StateError, StoredAccount};

/// How often the authority is asked about an order, unless it states an interval. An order that
/// takes longer has failed. The next order continues there, because validated domains stay
/// validated.
const POLLS: RetryPolicy = RetryPolicy::new().timeout(Duration::from_secs(120));

/// Orders certificates from one authority, and stores them.
pub(super) struct Orders {
    pub(super) directory: DirectoryUrl,
    pub(super) domains: Vec<Domain>,
    pub(super) contact: Vec<Contact>,
    pub(super) outbound: Arc<dyn Outbound>,
    pub(super) challenges: Arc<Challenges>,
    pub(super) state: State,
}

#[async_trait]
impl Authority for Orders {
    fn domains(&self) -> &[Domain] {
        &self.domains
    }

    fn directory(&self) -> &str {
        self.directory.as_str()
    }

    async fn issue(&self, replaced: Option<&Issued>) -> Result<Issued, Failure> {
        let exchange = self.exchange();
        let issued = self.order(&exchange, replaced).await;
        if issued.as_ref().is_err_and(Failure::is_of_unknown_account) {
            self.with_state(State::forget_account).await?;
        }
        issued
    }

    async fn suggestion(&self, issued: &Issued) -> Option<Suggestion> {
        let identifier = issued.identifier()?;
        let stored = self.with_state(State::account).await.ok()??;
        let builder = Account::builder_with_http(Box::new(self.exchange().0));
        let account = builder.from_credentials(stored.credentials).await;
        let asked = match account {
            Ok(account) => account.renewal_info(&identifier).await,
            Err(error) => Err(error),
        };
        match asked {
            Ok((info, ask_again)) => suggestion(&info.suggested_window, ask_again),
            Err(error) => {
                // Many authorities do not support renewal information. Any other problem with the
                // authority shows up as a failure of the renewal.
                tracing::debug!(%error, "the authority does not say when to renew");
                None
            }
        }
    }
}

fn suggestion(window: &SuggestedWindow, ask_again: Duration) -> Option<Suggestion> {
    let time = |seconds| {
        let since_epoch = Duration::from_secs(u64::try_from(seconds).ok()?);
        SystemTime::UNIX_EPOCH.checked_add(since_epoch)
    };
    Some(Suggestion {
        window: Window {
            start: time(window.start.unix_timestamp())?,
            end: time(window.end.unix_timestamp())?,
        },
        ask_again,
    })
}

impl Orders {
    fn exchange(&self) -> Exchange {
        Exchange(DirectoryClient::new(Arc::clone(&self.outbound)))
    }

    async fn order(
        &self,
        exchange: &Exchange,
        replaced: Option<&Issued>,
    ) -> Result<Issued, Failure> {
        let account = self.account(exchange).await?;
        let mut order = exchange
            .step(
                "an order cannot be made",
                self.new_order(&account, replaced),
            )
            .await?;
        self.validate(exchange, &mut order).await?;
        let key = exchange
            .step("the certificate cannot be requested", order.finalize())
            .await?;
        let chain = exchange
            .step(
                "the certificate cannot be fetched",
                order.poll_certificate(&POLLS),
            )
            .await?;
        let pem = Zeroizing::new(format!("{key}{chain}"));
        let issued = Issued::from_pem(&pem)?;
        self.store(pem).await;
        Ok(issued)
    }

    /// Makes an order. If the authority supports replacements, the order names the certificate that
    /// it replaces. Such an order is exempt from some limits.
    async fn new_order(
        &self,
        account: &Account,
        replaced: Option<&Issued>,
    ) -> Result<Order, instant_acme::Error> {
        let names = self.domains.iter();
        let names: Vec<_> = names.map(|it| Identifier::Dns(it.to_string())).collect();
        if let Some(identifier) = replaced.and_then(Issued::identifier) {
            let order = NewOrder::new(&names).replaces(identifier);
            match account.new_order(&order).await {
                Err(error) if is_about_replacement(&error) => {}
                done => return done,
            }
        }
        account.new_order(&NewOrder::new(&names)).await
    }

    /// Proves to the authority that this server controls the domains.
    async fn validate(&self, exchange: &Exchange, order: &mut Order) -> Result<(), Failure> {
        let answering = self.challenges.begin();
        begin_challenges(exchange, order, &answering).await?;
        let ready = order.poll_ready(&POLLS).await;
        match ready {
            Ok(OrderStatus::Ready) => Ok(()),
            // The order itself says only that it has failed.
            Ok(_) | Err(instant_acme::Error::Api(_)) => Err(refused_domain(exchange, order).await),
            Err(source) => Err(exchange.failure("the order does not get ready", source)),
        }
    }

    /// Returns the account, and creates an account if none is stored.
    async fn account(&self, exchange: &Exchange) -> Result<Account, Failure> {
        let contact: Vec<_> = self.contact.iter().map(Contact::uri).collect();
        let stored = match self.with_state(State::account).await {
            Err(error @ StateError::Damaged { .. }) => {
                tracing::warn!(%error, "a new account is made");
                None
            }
            stored => stored?,
        };
        let Some(stored) = stored else {
            return self.new_account(exchange, contact).await;
        };
        let builder = Account::builder_with_http(Box::new(exchange.0.clone()));
        let restored = builder.from_credentials(stored.credentials);
        let account = exchange.step(DIRECTORY, restored).await?;
        if stored.contact != contact {
            self.update_contact(exchange, &account, contact).await?;
        }
        Ok(account)
    }

    async fn new_account(
        &self,
        exchange: &Exchange,
        contact: Vec<String>,
    ) -> Result<Account, Failure> {
        let uris: Vec<_> = contact.iter().map(String::as_str).collect();
        let new = NewAccount {
            contact: &uris,
            // The settings are refused without the operator's agreement.
            terms_of_service_agreed: true,
            only_return_existing: false,
        };
        let builder = Account::builder_with_http(Box::new(exchange.0.clone()));
        let created = builder.create(&new, self.directory.to_string(), None);
        let (account, credentials) = exchange.step("an account cannot be made", created).await?;
        let stored = StoredAccount {
            contact,
            credentials,
        };
        self.with_state(move |state| state.write_account(&stored))
            .await?;
        tracing::info!(directory = %self.directory, account = account.id(), "an account was made");
        Ok(account)
    }

    async fn update_contact(
        &self,
        exchange: &Exchange,
        account: &Account,
        contact: Vec<String>,
    ) -> Result<(), Failure> {
        let uris: Vec<_> = contact.iter().map(String::as_str).collect();
        let updated = account.update_contacts(&uris);
        exchange
            .step("the contact cannot be changed", updated)
            .await?;
        let rewrite = move |state: &State| match state.account()? {
            Some(stored) => state.write_account(&StoredAccount { contact, ..stored }),
            None => Ok(()),
        };
        Ok(self.with_state(rewrite).await?)
    }

    /// Stores the certificate. A failure is only logged and the certificate is used anyway: to
    /// order it once more after a restart is the lesser evil.
    async fn store(&self, pem: Zeroizing<String>) {
        let written = self.with_state(move |state| state.write_certificate(&pem));
        if let Err(error) = written.await {
            let cause = std::error::Error::source(&error).map(tracing::field::display);
            tracing::error!(%error, cause, "the certificate is not stored; a restart has to order another one");
        }
    }

    /// Does something with the files, off the threads that serve requests.
    async fn with_state<T: Send + 'static>(
        &self,
        work: impl FnOnce(&State) -> Result<T, StateError> + Send + 'static,
    ) -> Result<T, StateError> {
        let state = self.state.clone();
        let done = tokio::task::spawn_blocking(move || work(&state)).await;
        done.expect("reading and writing does not panic")
    }
}

/// Whether the order can be sent again without the certificate that it replaces (RFC 9773, section
/// 5).
fn is_about_replacement(error: &instant_acme::Error) -> bool {
    match error {
        instant_acme::Error::Unsupported(_) => true,
        instant_acme::Error::Api(problem) => {
            let kind = problem.r#type.as_deref().unwrap_or_default();
            kind.ends_with(":alreadyReplaced") || kind.ends_with(":malformed")
        }
        _ => false,
    }
}

const DIRECTORY: &str = "the directory of the authority cannot be read";

/// Answers the challenges of all domains that are not validated, and tells the authority to look.
async fn begin_challenges(
    exchange: &Exchange,
    order: &mut Order,
    answering: &Answering<'_>,
) -> Result<(), Failure> {
    const STEP: &str = "the challenges of the order cannot be read";
    let mut authorizations = order.authorizations();
    while let Some(authorization) = authorizations.next().await {
        let mut authorization = authorization.map_err(|it| exchange.failure(STEP, it))?;
        if authorization.status == AuthorizationStatus::Valid {
            continue;
        }
        let domain = authorization.identifier().to_string();
        let Some(mut challenge) = authorization.challenge(ChallengeType::TlsAlpn01) else {
            return Err(Failure::NoChallenge { domain });
        };
        let digest = challenge.key_authorization().digest();
        let answer = answering.answer(&domain, digest.as_ref());
        answer.map_err(Failure::Challenge)?;
        exchange.step(STEP, challenge.set_ready()).await?;
    }
    Ok(())
}

/// Returns the first domain that was not validated, with the authority's reason.
async fn refused_domain(exchange: &Exchange, order: &mut Order) -> Failure {
    const STEP: &str = "the order has failed, and its reason cannot be read";
    let mut authorizations = order.authorizations();
    while let Some(authorization) = authorizations.next().await {
        let mut authorization = match authorization {
            Ok(authorization) => authorization,
            Err(source) => return exchange.failure(STEP, source),
        };
        if let Err(source) = authorization.refresh().await {
            return exchange.failure(STEP, source);
        }
        if authorization.status != AuthorizationStatus::Valid {
            let mut challenges = authorization.challenges.iter();
            return Failure::Validation {
                domain: authorization.identifier().to_string(),
                problem: challenges.find_map(|challenge| challenge.error.clone()),
            };
        }
    }
    exchange.failure(
        STEP,
        instant_acme::Error::Str("a domain that is not validated"),
    )
}

/// The exchange of one attempt with the authority.
struct Exchange(DirectoryClient);

impl Exchange {
    async fn step<T>(
        &self,
        step: &'static str,
        done: impl Future<Output = Result<T, instant_acme::Error>>,
    ) -> Result<T, Failure> {
        done.await.map_err(|source| self.failure(step, source))
    }

    fn failure(&self, step: &'static str, source: instant_acme::Error) -> Failure {
        Failure::Exchange {
            step,
            source,
            refusal: self.0.refusal(),
        }
    }
}

#[cfg(test)]
mod tests;
