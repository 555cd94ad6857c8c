/** A page in headless Chromium (Debian: chromium), as a picture; over its DevTools protocol. */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';

export interface Picture {
  readonly url: string;
  readonly width: number;
  readonly height: number;
  /** JavaScript, run in the page before its own. */
  readonly before: string;
  /** JavaScript expressions, run in the page one after the other; each is tried until it is true. */
  readonly steps: readonly string[];
}

interface Reply {
  readonly id?: number;
  readonly result?: Record<string, unknown>;
  readonly error?: { readonly message: string };
}

/** A PNG. Throws when a step does not become true within 20 s. */
export async function takePicture({ url, width, height, before, steps }: Picture): Promise<Buffer> {
  const directory = mkdtempSync(join(tmpdir(), 'signals-browser-'));
  const child = spawn(
    'chromium',
    ['--headless=new', '--no-sandbox', '--disable-gpu', '--hide-scrollbars', '--remote-debugging-port=0', `--user-data-dir=${directory}`, 'about:blank'],
    { stdio: ['ignore', 'ignore', 'pipe'] },
  );
  try {
    const browser = await Connection.to(await listeningAt(child.stderr));
    const { targetId } = await browser.ask('Target.createTarget', { url: 'about:blank' });
    const { sessionId } = await browser.ask('Target.attachToTarget', { targetId, flatten: true });
    const page = (method: string, params: object) => browser.ask(method, params, String(sessionId));
    await page('Emulation.setDeviceMetricsOverride', { width, height, deviceScaleFactor: 1, mobile: false });
    await page('Page.enable', {});
    await page('Page.addScriptToEvaluateOnNewDocument', { source: before });
    await page('Page.navigate', { url });
    for (const step of steps) await untilTrue(step, async () => await page('Runtime.evaluate', { expression: step, returnByValue: true }));
    await sleep(500); // for what moves to come to rest
    const { data } = await page('Page.captureScreenshot', { format: 'png' });
    browser.close();
    return Buffer.from(String(data), 'base64');
  } finally {
    if (child.exitCode === null) {
      const gone = once(child, 'exit');
      child.kill('SIGKILL');
      await gone;
    }
    rmSync(directory, { recursive: true, force: true, maxRetries: 5 });
  }
}

async function listeningAt(stderr: NodeJS.ReadableStream): Promise<string> {
  for await (const line of createInterface(stderr)) {
    const url = /^DevTools listening on (ws:\S+)/.exec(line)?.[1];
    if (url !== undefined) return url;
  }
  throw new Error('chromium did not start');
}

async function untilTrue(step: string, evaluate: () => Promise<Record<string, unknown>>): Promise<void> {
  const deadline = performance.now() + 20_000;
  for (;;) {
    const { result } = await evaluate();
    if ((result as { value?: unknown } | undefined)?.value === true) return;
    if (performance.now() > deadline) throw new Error(`the page did not come to: ${step}`);
    await sleep(200);
  }
}

class Connection {
  readonly #socket: WebSocket;
  readonly #waiting = new Map<number, (reply: Reply) => void>();
  #last = 0;

  private constructor(socket: WebSocket) {
    this.#socket = socket;
    socket.addEventListener('message', ({ data }) => {
      const reply = JSON.parse(String(data)) as Reply;
      this.#waiting.get(reply.id ?? -1)?.(reply);
    });
  }

  static async to(url: string): Promise<Connection> {
    const socket = new WebSocket(url);
    await once(socket, 'open');
    return new Connection(socket);
  }

  async ask(method: string, params: object, sessionId?: string): Promise<Record<string, unknown>> {
    const id = ++this.#last;
    const replied = new Promise<Reply>(resolve => this.#waiting.set(id, resolve));
    this.#socket.send(JSON.stringify({ id, method, params, ...(sessionId === undefined ? {} : { sessionId }) }));
    const { result, error } = await replied;
    this.#waiting.delete(id);
    if (error) throw new Error(`${method}: ${error.message}`);
    return result ?? {};
  }

  close(): void {
    this.#socket.close();
  }
}
