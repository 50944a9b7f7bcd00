//! The rules for HTML assets, in the order of the API's list.

/// A rule that an asset does not keep. It is told as a warning; the asset is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in super::super) enum Rule {
    /// A click tag is set inside of a function, or not in the primary file.
    ClickTagNonTopLevel,
    /// There is no click tag.
    ClickTagMissing,
    /// There are two or more.
    ClickTagMoreThanOne,
    /// A click tag's value is no URL.
    ClickTagInvalid,
    /// No other file names this one.
    OrphanedAsset,
    /// A bundle has no HTML file.
    PrimaryHtmlMissing,
    /// Something is loaded from somebody else's host.
    ExternalFileReferenced,
    /// It uses MRAID.
    MraidReferenced,
    /// It uses `AdMob`.
    AdmobReferenced,
    /// A file of a type that assets do not have.
    FileTypeInvalid,
    /// A file is named that is not in the bundle.
    LinkedFileNotFound,
    /// Something is loaded without TLS.
    NotSslCompliant,
    /// A file is empty.
    FileDetailEmpty,
    /// A file is not what its name says.
    AssetInvalid,
    /// It keeps data in the browser.
    Html5FeatureUnsupported,
    /// A link leads to a fixed URL past the click tag.
    ClickTagHardCoded,
    /// A click tag in an asset for the Enabler, which has exits instead.
    ClickTagInRichMedia,
}

impl Rule {
    /// Its name in the API.
    pub(in super::super) fn name(self) -> &'static str {
        match self {
            Self::ClickTagNonTopLevel => "CLICK_TAG_NON_TOP_LEVEL",
            Self::ClickTagMissing => "CLICK_TAG_MISSING",
            Self::ClickTagMoreThanOne => "CLICK_TAG_MORE_THAN_ONE",
            Self::ClickTagInvalid => "CLICK_TAG_INVALID",
            Self::OrphanedAsset => "ORPHANED_ASSET",
            Self::PrimaryHtmlMissing => "PRIMARY_HTML_MISSING",
            Self::ExternalFileReferenced => "EXTERNAL_FILE_REFERENCED",
            Self::MraidReferenced => "MRAID_REFERENCED",
            Self::AdmobReferenced => "ADMOB_REFERENCED",
            Self::FileTypeInvalid => "FILE_TYPE_INVALID",
            Self::LinkedFileNotFound => "LINKED_FILE_NOT_FOUND",
            Self::NotSslCompliant => "NOT_SSL_COMPLIANT",
            Self::FileDetailEmpty => "FILE_DETAIL_EMPTY",
            Self::AssetInvalid => "ASSET_INVALID",
            Self::Html5FeatureUnsupported => "HTML5_FEATURE_UNSUPPORTED",
            Self::ClickTagHardCoded => "CLICK_TAG_HARD_CODED",
            Self::ClickTagInRichMedia => "CLICK_TAG_IN_RICH_MEDIA",
        }
    }
}
