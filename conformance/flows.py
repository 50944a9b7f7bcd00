"""What can become of an upload: the columns of docs/compatibility.md, each explained in families.toml."""

FLOWS = (
    "simple", "multipart", "resumable", "chunks", "unknown length", "empty", "503 in the middle", "cut", "lost reply",
    "lost final reply", "expired", "wrong type", "too large",
)
# In these the library has to throw something, which a case returns, with one of these words in it.
REFUSALS = {
    "expired": ("404", "410", "NOT_FOUND", "another session"),
    "wrong type": ("400",),
    "too large": ("413",),
}
