// Shows the caller what a program cannot print.

import { readFile } from 'node:fs/promises';

import { ask } from './_client.js';
import type { Image } from './content.js';

/** Shows the caller a PNG, JPEG, GIF or WebP picture, given by its bytes or by the path of its file. */
export async function emitImage(picture: Uint8Array | ArrayBuffer | string | URL | Image, _mimeType?: string): Promise<void> {
  const data = (await bytesOf(picture)).toString('base64');
  await ask('/emit', JSON.stringify({ data }), { server: '', tool: '' });
}

async function bytesOf(picture: Uint8Array | ArrayBuffer | string | URL | Image): Promise<Buffer> {
  if (typeof picture === 'string' || picture instanceof URL) return readFile(picture);
  if (picture instanceof ArrayBuffer) return Buffer.from(picture);
  const bytes = picture instanceof Uint8Array ? picture : picture?.data;
  if (!(bytes instanceof Uint8Array)) {
    throw new TypeError('`picture` must be a Uint8Array, an ArrayBuffer, a path or an Image.');
  }
  return Buffer.from(bytes);
}
