// To which servers media and tokens may go.

/**
 * Whether the server at `uploadUrl` may have the media sent to a session at `session`: at the same
 * host, whatever its port, at another host of Google's APIs, or at an allowed origin. An upload
 * that began with https never continues without it.
 */
export function mayReceiveMedia(uploadUrl: URL, session: URL, allowed: readonly string[]): boolean {
  if (!/^https?:$/.test(session.protocol)) return false;
  if (uploadUrl.protocol === "https:" && session.protocol !== "https:") return false;
  return (
    uploadUrl.hostname === session.hostname ||
    (isLoopback(uploadUrl) && isLoopback(session)) ||
    (isGoogleApi(uploadUrl) && isGoogleApi(session) && session.protocol === "https:") ||
    allowed.includes(session.origin)
  );
}

/** Whether nobody between this page and the server can read a request to a URL. */
export function isPrivate(url: URL): boolean {
  return url.protocol === "https:" || isLoopback(url);
}

/** Whether a URL leads to this machine. The names below `localhost` do (RFC 6761, 6.3). */
function isLoopback({ hostname }: URL): boolean {
  return (
    isInDomain(hostname, "localhost") ||
    /^127(\.\d+){3}$/.test(hostname) ||
    // The parser writes IPv4 addresses in IPv6 in hexadecimal digits.
    /^\[::(1|ffff:7f[0-9a-f]{2}:[0-9a-f]+)\]$/.test(hostname)
  );
}

function isGoogleApi(url: URL): boolean {
  return url.port === "" && isInDomain(url.hostname, "googleapis.com");
}

/** The parser of URLs writes names in lower case. */
function isInDomain(name: string, domain: string): boolean {
  const bare = name.replace(/\.$/, "");
  return bare === domain || bare.endsWith(`.${domain}`);
}
