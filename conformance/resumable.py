"""Resumable uploads by Google's library, brought to their end."""

import httplib2
from googleapiclient import errors


def to_the_end(request, tries=20, http=None):
    """Goes on as the library's guide says: after a fault, call next_chunk() again; it asks first."""
    while True:
        try:
            _, resource = request.next_chunk(http=http)
        except errors.HttpError as error:
            # A torn request may reach the server later than the one after it, and takes over.
            if error.resp.status < 500 or tries == 0:
                raise
            tries -= 1
        except (OSError, httplib2.HttpLib2Error):
            if tries == 0:
                raise
            tries -= 1
        else:
            # Of methods without a response only the progress tells the end.
            if resource is not None or request.resumable_progress == request.resumable.size():
                return resource


def thrown(function):
    """What the library throws, in a word or two."""
    try:
        function()
    except errors.HttpError as error:
        return f"`HttpError` {error.resp.status}"
    except errors.Error as error:
        return f"`{type(error).__name__}`"
    raise AssertionError("not refused")
