// What a program shows its caller besides what it prints.

import { ask } from './_client.js';
import type { Image } from './content.js';

/** Shows a PNG, JPEG, GIF or WebP picture to the caller; its kind is found out from its bytes. */
export async function emitImage(picture: Uint8Array | ArrayBuffer | Image, _mimeType?: string): Promise<void> {
  const data = Buffer.from(bytesOf(picture)).toString('base64');
  await ask('/emit', JSON.stringify({ data }), { server: '', tool: '' });
}

function bytesOf(picture: Uint8Array | ArrayBuffer | Image): Uint8Array {
  if (picture instanceof ArrayBuffer) return new Uint8Array(picture);
  const data = picture instanceof Uint8Array ? picture : picture?.data;
  if (data instanceof Uint8Array) return data;
  throw new TypeError('emitImage takes a Uint8Array, an ArrayBuffer or an Image');
}
