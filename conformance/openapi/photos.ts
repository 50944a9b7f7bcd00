// A client of the photo album, by the types that are generated of its OpenAPI document: photos.js URL FLOW FILE. The file is the photo.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import createClient from "openapi-fetch";
import type { components, paths } from "./album.js";

type Photo = components["schemas"]["Photo"];

const [baseUrl, flow, file] = process.argv.slice(2);
const client = createClient<paths>({ baseUrl });
const png = { "Content-Type": "image/png" };
const bytes = readFileSync(file!);
const photo = new Blob([bytes], { type: "image/png" });
const CHUNK = 256 * 1024;

/** What a call returned, which must not be an error. */
function ok<T>({ data, error }: { data?: T; error?: unknown }): T {
  assert.ok(data !== undefined, JSON.stringify(error));
  return data;
}

async function album(): Promise<string> {
  const made = ok(await client.POST("/album/v1/albums", { body: { title: "Summer" } }));
  return made.id!;
}

/** Metadata and media in one request, as form data. */
async function multipart(metadata: Photo): Promise<Photo> {
  const upload = { metadata, media: photo };
  return ok(
    await client.POST("/upload/album/v1/photos", {
      params: { query: { uploadType: "multipart" } },
      body: upload,
      bodySerializer: () => {
        const form = new FormData();
        form.set("metadata", JSON.stringify(upload.metadata));
        form.set("media", upload.media);
        return form;
      },
    }),
  );
}

async function media(photoId: string): Promise<Buffer> {
  const downloaded = await client.GET("/download/album/v1/photos/{photoId}", {
    params: { path: { photoId } },
    parseAs: "arrayBuffer",
  });
  return Buffer.from(ok(downloaded));
}

const flows: Record<string, () => Promise<void>> = {
  async multipart() {
    const made = await multipart({ album: await album(), title: "A cow", rating: 4 });
    assert.deepEqual([made.title, made.mimeType, made.size], ["A cow", "image/png", String(bytes.length)]);
    assert.ok((await media(made.id!)).equals(bytes));
  },

  // A photo needs metadata, so the media alone replaces that of a photo.
  async simple() {
    const made = await multipart({ album: await album() });
    const shorter = photo.slice(0, 1000, "image/png");
    const replaced = ok(
      await client.PATCH("/upload/album/v1/photos/{photoId}", {
        params: { path: { photoId: made.id! }, query: { uploadType: "media" } },
        headers: png,
        body: shorter,
        bodySerializer: (body) => body,
      }),
    );
    assert.deepEqual([replaced.id, replaced.size], [made.id, "1000"]);
    assert.ok((await media(made.id!)).equals(bytes.subarray(0, 1000)));
  },

  async resumable() {
    const path = "/resumable/upload/album/v1/photos";
    const started = await client.POST(path, {
      params: {
        query: { uploadType: "resumable" },
        header: { "X-Upload-Content-Type": "image/png", "X-Upload-Content-Length": bytes.length },
      },
      body: { album: await album(), title: "In chunks" },
    });
    assert.equal(started.response.status, 200);
    const upload_id = started.response.headers.get("X-GUploader-UploadID")!;
    const send = (range: string, body: Blob) =>
      client.PUT(path, {
        params: { query: { upload_id }, header: { "Content-Range": `bytes ${range}/${bytes.length}` } },
        body,
        bodySerializer: (body) => body,
      });
    for (let first = 0; ; first += CHUNK) {
      const end = Math.min(first + CHUNK, bytes.length);
      const { data, response } = await send(`${first}-${end - 1}`, photo.slice(first, end));
      if (end === bytes.length) {
        assert.equal(response.status, 201);
        assert.deepEqual([data?.title, data?.size], ["In chunks", String(bytes.length)]);
        assert.ok((await media(data!.id!)).equals(bytes));
        return;
      }
      assert.deepEqual([response.status, response.headers.get("Range")], [308, `bytes=0-${end - 1}`]);
      const { response: asked } = await send("*", new Blob());
      assert.deepEqual([asked.status, asked.headers.get("Range")], [308, `bytes=0-${end - 1}`]);
    }
  },

  async list() {
    const summer = await album();
    for (const rating of [2, 5, 1, 3]) {
      await multipart({ album: summer, rating });
    }
    const ratings: (number | undefined)[] = [];
    let pageToken: string | undefined;
    do {
      const page = ok(
        await client.GET("/album/v1/photos", {
          params: {
            query: { filter: `album = "${summer}" AND rating >= 2`, orderBy: "rating desc", maxResults: 2, pageToken },
          },
        }),
      );
      ratings.push(...(page.items ?? []).map((photo) => photo.rating));
      pageToken = page.nextPageToken;
    } while (pageToken);
    assert.deepEqual(ratings, [5, 3, 2]);
  },

  async changes() {
    const made = await multipart({ album: await album() });
    const params = { path: { photoId: made.id! } };
    // The album is required, but not in a patch.
    const patched = ok(await client.PATCH("/album/v1/photos/{photoId}", { params, body: { rating: 3 } }));
    assert.deepEqual([patched.album, patched.rating], [made.album, 3]);
    const unrated = ok(await client.PATCH("/album/v1/photos/{photoId}", { params, body: { rating: null } }));
    assert.equal(unrated.rating, undefined);
    const comments = "/album/v1/photos/{photoId}/comments";
    const said = ok(await client.POST(comments, { params, body: { text: "nice" } }));
    assert.deepEqual(ok(await client.GET(comments, { params })).items, [said]);
    const deleted = await client.DELETE("/album/v1/photos/{photoId}", { params });
    assert.equal(deleted.response.status, 204);
    const { error } = await client.GET("/album/v1/photos/{photoId}", { params });
    assert.deepEqual([error?.error.code, error?.error.errors?.[0]?.reason], [404, "notFound"]);
  },
};

/** Is compiled and never run: what the types refuse. */
export async function refused(): Promise<void> {
  // @ts-expect-error: the album is required.
  await client.POST("/album/v1/photos", { body: { title: "x" } });
  // @ts-expect-error: the rating is a number.
  await client.POST("/album/v1/photos", { body: { album: "x", rating: "5" } });
  // @ts-expect-error: what is required cannot be removed.
  await client.PATCH("/album/v1/photos/{photoId}", { params: { path: { photoId: "x" } }, body: { album: null } });
  // @ts-expect-error: a session has another path.
  await client.POST("/upload/album/v1/photos", { params: { query: { uploadType: "resumable" } }, body: photo });
  // @ts-expect-error: an upload has a body.
  await client.POST("/upload/album/v1/photos", { params: { query: { uploadType: "media" } } });
  // @ts-expect-error: the session is named.
  await client.PUT("/resumable/upload/album/v1/photos", { body: photo });
  // @ts-expect-error: there is no such order.
  await client.GET("/album/v1/photos", { params: { query: { orderBy: "title" } } });
  // @ts-expect-error: nothing is uploaded to an album.
  await client.POST("/upload/album/v1/albums", { body: photo });
}

await flows[flow!]!();
