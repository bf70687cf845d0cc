/** Pictures and files as the browser can show and save them. They come from programs: only formats that cannot run anything. */
import {blob} from './api.js';
import {visible} from './format.js';

const SHOWN = new Set(['image/png', 'image/jpeg', 'image/gif', 'image/webp']);
const LARGEST_SHOWN = 10 * 1024 * 1024;

/** @param {{mediaType: string, bytes: number}} file */
export const canBeShown = ({mediaType, bytes}) => SHOWN.has(mediaType) && bytes <= LARGEST_SHOWN;

/** @param {{mimeType: string, data: string}} image with its bytes in base64 @returns {Blob | null} null if it cannot be shown */
export function decoded({mimeType, data}) {
  if (!SHOWN.has(mimeType)) return null;
  try {
    return new Blob([Uint8Array.from(atob(data), (each) => each.charCodeAt(0))], {type: mimeType});
  } catch {
    return null; // it is not base64
  }
}

/** @param {{url: string, mediaType: string}} file */
export async function picture({url, mediaType}) {
  return new Blob([await blob(url)], {type: mediaType});
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
