// Google's library for Cloud Storage, with an access token of another issuer. Its commands: {"call": NAME, ...}.
import {createRequire} from "node:module";
import {pathToFileURL} from "node:url";

import {serve} from "../commands.mjs";

const [packages, rootUrl] = process.argv.slice(2);
// The packages are in another directory than this file.
const require = createRequire(pathToFileURL(`${packages}/here.js`));
const {Storage} = require("@google-cloud/storage");
const {OAuth2Client} = require("google-auth-library");

const calls = {
  async upload({name, data, token}) {
    const authClient = new OAuth2Client();
    authClient.setCredentials({access_token: token});
    // With a host of its own the library takes the server for an emulator, and sends no credentials unless it is told to.
    const storage = new Storage({apiEndpoint: rootUrl, projectId: "farm", authClient, useAuthWithCustomEndpoint: true});
    await storage.createBucket(name);
    const file = storage.bucket(name).file("cow");
    // Its resumable uploads send no credentials in any case (8.4).
    await file.save(Buffer.from(data, "base64"), {resumable: false});
    const [back] = await file.download();
    return back.toString("base64");
  },
};

await serve(({call, ...options}) => calls[call](options));
