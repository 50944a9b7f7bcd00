"""A client of the photo album that openapi-python-client has generated of its OpenAPI document, in the package `album`."""

import io
from http import HTTPStatus

from album import Client
from album.api.albums import album_albums_insert
from album.api.photos import (
    album_photos_get,
    album_photos_get_media,
    album_photos_insert_resumable,
    album_photos_insert_resumable_append,
    album_photos_insert_upload,
    album_photos_list,
    album_photos_patch,
)
from album.models import (
    Album,
    AlbumPhotosInsertUploadFilesBody,
    AlbumPhotosInsertUploadUploadType,
    AlbumPhotosListOrderBy,
    Error,
    Photo,
    PhotoPatch,
)
from album.types import File

CHUNK = 256 * 1024


class Photos:
    """The flows, against the server at a URL."""

    def __init__(self, url):
        self.client = Client(base_url=url, raise_on_unexpected_status=True)

    def album(self):
        return album_albums_insert.sync(client=self.client, body=Album(title="Summer")).id

    def multipart(self, data, **fields):
        """Metadata and media in one request, as form data."""
        media = File(payload=io.BytesIO(data), file_name="cow.png", mime_type="image/png")
        made = album_photos_insert_upload.sync(
            client=self.client,
            upload_type=AlbumPhotosInsertUploadUploadType.MULTIPART,
            body=AlbumPhotosInsertUploadFilesBody(metadata=Photo(**fields), media=media),
        )
        assert isinstance(made, Photo), made
        assert (made.mime_type, int(made.size)) == ("image/png", len(data)), made
        return made

    def resumable(self, data, **fields):
        """A session, in chunks. It is asked how far it is after each."""
        started = album_photos_insert_resumable.sync_detailed(
            client=self.client,
            upload_type="resumable",
            x_upload_content_type="image/png",
            x_upload_content_length=len(data),
            body=Photo(**fields),
        )
        assert started.status_code == HTTPStatus.OK, started
        session = started.headers["X-GUploader-UploadID"]

        def send(span, chunk):
            return album_photos_insert_resumable_append.sync_detailed(
                client=self.client,
                upload_id=session,
                content_range=f"bytes {span}/{len(data)}",
                body=File(payload=io.BytesIO(chunk)),
            )

        for first in range(0, len(data), CHUNK):
            chunk = data[first : first + CHUNK]
            last = first + len(chunk) - 1
            reply = send(f"{first}-{last}", chunk)
            if last + 1 == len(data):
                assert reply.status_code == HTTPStatus.CREATED, reply
                return reply.parsed
            for reply in (reply, send("*", b"")):
                assert reply.status_code == HTTPStatus.PERMANENT_REDIRECT, reply
                assert reply.headers["Range"] == f"bytes=0-{last}", reply.headers
        raise AssertionError("there are no bytes")

    def read(self, photo):
        return album_photos_get_media.sync(client=self.client, photo_id=photo).payload.read()

    def ratings(self, album, least):
        """The ratings of an album's photos, in their order, page by page."""
        ratings, more = [], {}
        while True:
            page = album_photos_list.sync(
                client=self.client,
                filter_=f'album = "{album}" AND rating >= {least}',
                order_by=AlbumPhotosListOrderBy.RATING_DESC,
                max_results=2,
                **more,
            )
            ratings += [photo.rating for photo in page.items or []]
            if not page.next_page_token:
                return ratings
            more = {"page_token": page.next_page_token}

    def rate(self, photo, rating):
        """The album is required, but not in a patch. `None` removes the rating."""
        return album_photos_patch.sync(client=self.client, photo_id=photo, body=PhotoPatch(rating=rating))

    def reason(self, photo):
        """Why a photo cannot be read."""
        error = album_photos_get.sync(client=self.client, photo_id=photo)
        assert isinstance(error, Error), error
        return error.error.errors[0].reason
