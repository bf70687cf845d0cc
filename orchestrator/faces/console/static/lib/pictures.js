/** Pictures and files as the browser can show and save them. They come from programs: only formats that cannot run anything. */
import {blob} from './api.js';
import {visible} from './format.js';

const SHOWN = new Set(['image/png', 'image/jpeg', 'image/gif', 'image/webp']);
const LARGEST_SHOWN = 10 * 1024 * 1024;
const MOST_PIXELS = 25_000_000; // a file of 50 KB may have ten times as many, each of four bytes once it is shown

/** How many pictures are shown at once; the others can be downloaded. */
export const MOST_SHOWN = 8;

/**
 * @typedef {{content: Blob, problem: string}} Checked
 *   `problem`: why it must not be shown, as in "This picture is too large to preview."; empty if it may.
 */

/** @param {{mediaType: string, bytes: number}} file */
export const canBeShown = ({mediaType, bytes}) => SHOWN.has(mediaType) && bytes <= LARGEST_SHOWN;

/** @param {{mimeType: string, data: string}} image with its bytes in base64 @returns {Checked | null} null if it is no picture */
export function decoded({mimeType, data}) {
  if (!SHOWN.has(mimeType)) return null;
  try {
    return checked(Uint8Array.from(atob(data), (each) => each.charCodeAt(0)), mimeType);
  } catch {
    return null; // it is not base64
  }
}

/** @param {{url: string, mediaType: string}} file @returns {Promise<Checked>} */
export async function picture({url, mediaType}) {
  return checked(new Uint8Array(await (await blob(url)).arrayBuffer()), mediaType);
}

/** @param {Uint8Array} bytes @param {string} type @returns {Checked} */
function checked(bytes, type) {
  const size = sizeOf(bytes);
  const fits = size && size.width * size.height <= MOST_PIXELS;
  return {content: new Blob([bytes], {type}), problem: fits ? '' : size ? 'is too large to preview' : 'cannot be previewed'};
}

/**
 * Read the size of a picture out of its first bytes. The format is what they say, as it is for browsers, whatever its type; where
 * a browser might read something else, there is no answer.
 * @param {Uint8Array} bytes
 * @returns {{width: number, height: number} | null}
 */
export function sizeOf(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  try {
    const size = FORMATS.find(({begins}) => begins.test(letters(view, 0, 16)))?.read(view);
    return size && size.width > 0 && size.height > 0 ? size : null;
  } catch {
    return null; // it ends too early
  }
}

const FORMATS = [
  {begins: /^\x89PNG\r\n\x1a\n[^]{4}IHDR/, read: (view) => ({width: view.getUint32(16), height: view.getUint32(20)})},
  {begins: /^GIF8[79]a/, read: gif},
  {begins: /^\xff\xd8\xff/, read: jpeg},
  {begins: /^RIFF[^]{4}WEBP/, read: webp},
];

/** @param {DataView} view */
function letters(view, from, length) {
  return String.fromCharCode(...new Uint8Array(view.buffer, view.byteOffset + from, Math.min(length, view.byteLength - from)));
}

/** The first frame may be larger than the screen that the header tells of; browsers make room for it. @param {DataView} view */
function gif(view) {
  const tableBytes = (flags) => (flags & 0x80 ? 3 << ((flags & 7) + 1) : 0);
  let at = 13 + tableBytes(view.getUint8(10));
  while (view.getUint8(at) === 0x21) {
    at += 2;
    while (view.getUint8(at)) at += 1 + view.getUint8(at);
    at += 1;
  }
  if (view.getUint8(at) !== 0x2c) return null;
  const [left, top, width, height] = [1, 3, 5, 7].map((offset) => view.getUint16(at + offset, true));
  return {width: Math.max(view.getUint16(6, true), left + width), height: Math.max(view.getUint16(8, true), top + height)};
}

/** The size is in the frame header (SOF), which any number of segments may precede. @param {DataView} view */
function jpeg(view) {
  for (let at = 2; view.getUint8(at) === 0xff; ) {
    const marker = view.getUint8(at + 1);
    const isFrame = marker >= 0xc0 && marker <= 0xcf && ![0xc4, 0xc8, 0xcc].includes(marker);
    if (isFrame) return {width: view.getUint16(at + 7), height: view.getUint16(at + 5)};
    if (marker === 0xff) at += 1; // filling
    else if (marker < 0xc0 || (marker >= 0xd0 && marker <= 0xda) || view.getUint16(at + 2) < 2) return null; // decoders differ about these
    else at += 2 + view.getUint16(at + 2);
  }
  return null;
}

/** @param {DataView} view */
function webp(view) {
  const bits = (at, from, count) => (view.getUint32(at, true) >>> from) & ((1 << count) - 1);
  const kind = letters(view, 12, 4);
  if (kind === 'VP8X') return {width: bits(24, 0, 24) + 1, height: bits(26, 8, 24) + 1};
  if (kind === 'VP8L' && view.getUint8(20) === 0x2f) return {width: bits(21, 0, 14) + 1, height: bits(21, 14, 14) + 1};
  if (kind === 'VP8 ' && letters(view, 23, 3) === '\x9d\x01\x2a') return {width: bits(26, 0, 14), height: bits(26, 16, 14)};
  return null;
}

/** Save bytes under the last part of a name. @param {Blob} content @param {string} name */
export function save(content, name) {
  // As octets, it is saved and never opened in the place of this page.
  const url = URL.createObjectURL(new Blob([content], {type: 'application/octet-stream'}));
  const link = document.createElement('a');
  link.href = url;
  link.download = visible(name.split('/').at(-1)) || 'file';
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}
