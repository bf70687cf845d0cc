// Shows the caller what a program cannot print.

import { ask } from './_client.js';
import type { Image } from './content.js';

/** Shows the caller a PNG, JPEG, GIF or WebP picture; its bytes tell which of these it is. */
export async function emitImage(picture: Uint8Array | ArrayBuffer | Image, _mimeType?: string): Promise<void> {
  const source = picture instanceof ArrayBuffer ? new Uint8Array(picture) : picture;
  const bytes = source instanceof Uint8Array ? source : source?.data;
  if (!(bytes instanceof Uint8Array)) {
    throw new TypeError('`picture` must be a Uint8Array, an ArrayBuffer or an Image.');
  }
  const data = Buffer.from(bytes).toString('base64');
  await ask('/emit', JSON.stringify({ data }), { server: '', tool: '' });
}
