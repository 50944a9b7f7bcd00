// Uppy with its dashboard and its plugin for tus, as a page of another origin has it.

const CHUNK = 256 * 1024;
let uppy;

function show(base) {
  const { Dashboard, Tus } = window.Uppy;
  uppy = new window.Uppy.Uppy({ autoProceed: false });
  uppy.use(Dashboard, { inline: true, target: "body" });
  uppy.use(Tus, { endpoint: `${base}/files`, chunkSize: CHUNK, retryDelays: [0, 100, 200] });
}

// Drops a file on the dashboard. After a reload it is the same file: its name, size, type and time are.
async function drop(length) {
  const file = new File([media(length)], "cow.mp4", { type: "video/mp4", lastModified: 1 });
  const transfer = new DataTransfer();
  transfer.items.add(file);
  const target = document.querySelector(".uppy-Dashboard-inner").parentElement;
  const added = new Promise((resolve) => uppy.once("file-added", resolve));
  for (const type of ["dragover", "drop"]) {
    target.dispatchEvent(new DragEvent(type, { dataTransfer: transfer, bubbles: true, cancelable: true }));
  }
  await added;
}

// Uploads until `pauseAfter` bytes are on their way, then pauses. Returns the bytes that have arrived.
async function paused(base, length, pauseAfter) {
  show(base);
  await drop(length);
  return new Promise((resolve) => {
    uppy.on("upload-progress", (file, progress) => {
      if (progress.bytesUploaded < pauseAfter) return;
      uppy.pauseAll();
      resolve(progress.bytesUploaded);
    });
    uppy.upload();
  });
}

// Uploads to the end. Returns the digest of what was sent.
async function finished(base, length) {
  show(base);
  await drop(length);
  const { successful, failed } = await uppy.upload();
  if (failed.length || successful.length !== 1) throw new Error(`Uppy: ${failed.map((file) => file.error)}`);
  return { url: successful[0].uploadURL, sha256: await sha256(media(length)) };
}

// Pauses in the middle and resumes, without a reload.
async function pausedAndResumed(base, length, pauseAfter) {
  show(base);
  await drop(length);
  let resumed = 0;
  uppy.on("upload-progress", (file, progress) => {
    if (resumed || progress.bytesUploaded < pauseAfter) return;
    resumed += 1;
    uppy.pauseAll();
    setTimeout(() => uppy.resumeAll(), 300);
  });
  const { failed } = await uppy.upload();
  if (failed.length) throw new Error(`Uppy: ${failed.map((file) => file.error)}`);
  return { resumed, sha256: await sha256(media(length)) };
}
