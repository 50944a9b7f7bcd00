// Google's libraries for credentials and for Cloud Storage. Their commands: {"call": NAME, ...}.
import {createRequire} from "node:module";
import {pathToFileURL} from "node:url";

import {serve} from "../commands.mjs";

const [packages, rootUrl] = process.argv.slice(2);
// The packages are in another directory than this file.
const require = createRequire(pathToFileURL(`${packages}/here.js`));
const {Storage} = require("@google-cloud/storage");
const {OAuth2Client} = require("google-auth-library");

const calls = {
  // By application default credentials: the file that GOOGLE_APPLICATION_CREDENTIALS names.
  async upload({name, data}) {
    // With a host of its own the library takes the server for an emulator, and sends no credentials unless it is told to.
    const storage = new Storage({apiEndpoint: rootUrl, projectId: "farm", useAuthWithCustomEndpoint: true});
    const file = storage.bucket("barn").file(name);
    // Its resumable uploads send none in any case (8.4).
    await file.save(Buffer.from(data, "base64"), {resumable: false});
    const [back] = await file.download();
    return back.toString("base64");
  },
  async publish({name, public: isPublic}) {
    const storage = new Storage({apiEndpoint: rootUrl, projectId: "farm", useAuthWithCustomEndpoint: true});
    const file = storage.bucket("barn").file(name);
    await (isPublic ? file.makePublic() : file.makePrivate());
  },
  // A client with the token of a user, which the library gets for a refresh token.
  async list({user}) {
    const client = new OAuth2Client({clientId: "id", clientSecret: "secret", endpoints: {oauth2TokenUrl: `${rootUrl}/token`}});
    client.setCredentials({refresh_token: user});
    const {data} = await client.request({url: `${rootUrl}/drive/v3/files`});
    return data.files.map(file => file.name);
  },
};

await serve(({call, ...options}) => calls[call](options));
