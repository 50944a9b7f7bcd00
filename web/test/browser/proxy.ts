// A proxy that passes bytes on, and cuts or slows connections as a test asks.

import { createServer, connect } from "node:net";
import type { AddressInfo, Server, Socket } from "node:net";

export class CuttingProxy {
  /** Bytes of requests that have passed. */
  passed = 0;
  /** Connections are cut when so many bytes have passed, in this order. */
  cuts: number[] = [];
  /** Bytes of requests in a second; Infinity for no limit. */
  rate = Infinity;
  /** The first lines of requests. */
  readonly requests: string[] = [];
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  readonly #port: number;

  private constructor(server: Server, port: number) {
    this.#server = server;
    this.#port = port;
  }

  static async start(target: string): Promise<CuttingProxy> {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const proxy = new CuttingProxy(server, Number(new URL(target).port));
    server.on("connection", (client) => proxy.#connection(client));
    return proxy;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** The methods of the requests to sessions since the last call. */
  take(): string[] {
    return this.requests.splice(0).filter((line) => line.includes("upload_id="));
  }

  close(): void {
    for (const socket of this.#sockets) socket.destroy();
    this.#server.close();
  }

  #connection(client: Socket): void {
    const server = connect(this.#port, "127.0.0.1");
    const ends = [client, server];
    for (const socket of ends) {
      this.#sockets.add(socket);
      socket.on("error", () => {});
      socket.on("close", () => {
        this.#sockets.delete(socket);
        for (const end of ends) end.destroy();
      });
    }
    server.pipe(client);
    client.on("data", (bytes) => this.#pass(client, server, bytes));
  }

  #pass(client: Socket, server: Socket, bytes: Buffer): void {
    const line = /^(PUT|POST|DELETE|OPTIONS|GET) \S+ HTTP/.exec(bytes.toString("latin1", 0, 2000));
    if (line) this.requests.push(line[0]);
    this.passed += bytes.length;
    if (this.cuts.length > 0 && this.passed >= this.cuts[0]!) {
      this.cuts.shift();
      client.resetAndDestroy();
      return;
    }
    const flows = server.write(bytes);
    client.pause();
    const wait = this.rate === Infinity ? 0 : (1000 * bytes.length) / this.rate;
    const goOn = () => client.resume();
    if (wait > 0) setTimeout(goOn, wait);
    else if (flows) goOn();
    else server.once("drain", goOn);
  }
}
