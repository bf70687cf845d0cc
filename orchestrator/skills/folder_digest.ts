// Take the fingerprints of a folder's files, and one of all of them together.
import { createHash } from 'node:crypto';
import { directory_tree } from '/workspace/servers/filesystem/directory_tree.js';
import { get_file_info } from '/workspace/servers/filesystem/get_file_info.js';
import { read_media_file } from '/workspace/servers/filesystem/read_media_file.js';

const MAX_FILES = 300;
const MAX_FILE_BYTES = 5_000_000;
const MAX_TOTAL_BYTES = 50_000_000;

interface Entry { name: string; type: string; children?: Entry[] }

export default async function run(input: { folder: string }) {
  if (!input.folder.startsWith('/')) throw new Error('`folder` must be an absolute path, such as /workspace/notes.');
  const root = input.folder.replace(/\/+$/, '');
  const tree: Entry[] = JSON.parse((await directory_tree({ path: root || '/' })).content);
  const all = filesOf(tree);

  const files: { path: string; bytes: number; sha256: string }[] = [];
  const skipped: { path: string; problem: string }[] = [];
  let bytes = 0;
  for (const path of all.slice(0, MAX_FILES)) {
    try {
      const content = await bytesOf(`${root}/${path}`, MAX_TOTAL_BYTES - bytes);
      bytes += content.length;
      files.push({ path, bytes: content.length, sha256: createHash('sha256').update(content).digest('hex') });
    } catch (error) {
      skipped.push({ path, problem: error instanceof Error ? error.message : String(error) });
    }
  }

  const extensions: Record<string, { files: number; bytes: number }> = {};
  for (const extension of [...new Set(files.map((file) => extensionOf(file.path)))].sort()) {
    const own = files.filter((file) => extensionOf(file.path) === extension);
    extensions[extension] = { files: own.length, bytes: own.reduce((sum, file) => sum + file.bytes, 0) };
  }
  // A line for each file, as sha256sum prints it.
  const lines = files.map((file) => `${file.sha256}  ${file.path}\n`).join('');
  return {
    digest: createHash('sha256').update(lines).digest('hex'),
    bytes,
    extensions,
    files,
    skipped,
    note: all.length > MAX_FILES ? `All of this covers only the first ${MAX_FILES} of ${all.length} files.` : '',
  };
}

async function bytesOf(path: string, room: number): Promise<Buffer> {
  const size = Number(/^size: (\d+)$/m.exec((await get_file_info({ path })).content)?.[1]);
  if (!(size <= MAX_FILE_BYTES)) throw new Error(`has more than ${MAX_FILE_BYTES} bytes`);
  if (size > room) throw new Error(`would make it more than ${MAX_TOTAL_BYTES} bytes in all`);
  const [part] = (await read_media_file({ path })).content;
  return Buffer.from('resource' in part ? part.resource.blob : part.data, 'base64');
}

/** Return the paths of all files below the folder, in the order of their characters. */
function filesOf(entries: Entry[], above = ''): string[] {
  const paths = entries.flatMap((entry) =>
    entry.type === 'directory' ? filesOf(entry.children ?? [], `${above}${entry.name}/`) : [above + entry.name],
  );
  return paths.sort();
}

function extensionOf(path: string): string {
  const name = path.slice(path.lastIndexOf('/') + 1);
  const dot = name.lastIndexOf('.');
  return dot > 0 ? name.slice(dot).toLowerCase() : '(none)';
}
