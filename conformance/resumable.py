"""Resumable uploads by Google's library, brought to their end."""

import httplib2
from googleapiclient import errors


def to_the_end(request, tries=20):
    """Goes on as the library's guide says: after a fault, call next_chunk() again; it asks first."""
    while True:
        try:
            _, resource = request.next_chunk()
        except errors.HttpError as error:
            if error.resp.status < 500 or tries == 0:
                raise
            tries -= 1
        except (OSError, httplib2.HttpLib2Error):
            if tries == 0:
                raise
            tries -= 1
        else:
            if resource is not None:
                return resource
