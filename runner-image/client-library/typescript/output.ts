// Gives the caller what a program cannot print: pictures, which are shown, and files, which are kept.

import { copyFile, lstat, mkdir, readFile, realpath, stat, unlink } from 'node:fs/promises';
import { basename, dirname, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

import { ask } from './_client.js';
import type { Image } from './content.js';

// What is here when the program ends is handed to the caller.
const out = fileURLToPath(new URL('../out', import.meta.url));

/** Shows the caller a PNG, JPEG, GIF or WebP picture, given by its bytes or by the path of its file. */
export async function emitImage(picture: Uint8Array | ArrayBuffer | string | URL | Image, _mimeType?: string): Promise<void> {
  const data = (await bytesOf(picture)).toString('base64');
  await ask('/emit', JSON.stringify({ data }), { server: '', tool: '' });
}

/**
 * Gives the caller a file: copies it to /workspace/out, under its own name or another such as `reports/june.csv`. A file that
 * is in /workspace/out is handed over anyway and stays as it is.
 */
export async function emitFile(path: string | URL, name?: string): Promise<void> {
  if (typeof path !== 'string' && !(path instanceof URL)) {
    throw new TypeError('`path` must be the path of a file, as a string or a URL.');
  }
  const source = typeof path === 'string' ? resolve(path) : fileURLToPath(path);
  if ((await stat(source)).isDirectory()) {
    throw new TypeError(`\`path\` must be a file, and ${source} is a directory: emit its files one by one.`);
  }
  await mkdir(out, { recursive: true });
  const [real, place] = await Promise.all([realpath(source), realpath(out)]);
  const called = name ?? (real.startsWith(`${place}/`) ? relative(place, real) : basename(source));
  if (typeof called !== 'string' || called.split('/').some((part) => ['', '.', '..'].includes(part)) || called.includes('\0')) {
    throw new TypeError(`\`name\` must be a relative path such as \`reports/june.csv\`, without \`..\`, not ${JSON.stringify(called)}.`);
  }
  const target = join(place, called);
  if (target === real) return;
  await mkdir(dirname(target), { recursive: true });
  // A link is not handed over, and what it leads to is not ours to overwrite.
  if ((await lstat(target).catch(() => undefined))?.isSymbolicLink()) await unlink(target);
  await copyFile(real, target);
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
