// Replace a text in the files of a folder. Nothing is written unless `dryRun` is false.
import { directory_tree } from '/workspace/servers/filesystem/directory_tree.js';
import { get_file_info } from '/workspace/servers/filesystem/get_file_info.js';
import { read_text_file } from '/workspace/servers/filesystem/read_text_file.js';
import { write_file } from '/workspace/servers/filesystem/write_file.js';

const MAX_FILES = 200;
const MAX_FILE_BYTES = 1_000_000;

interface Entry { name: string; type: string; children?: Entry[] }
interface Input { folder: string; find: string; replace: string; pattern?: string; dryRun?: boolean }

export default async function run(input: Input) {
  const { folder, find, replace, pattern = '*', dryRun = true } = input;
  if (!folder.startsWith('/')) throw new Error('`folder` must be an absolute path, such as /workspace/notes.');
  if (find === '') throw new Error('`find` must have at least one character.');

  const root = folder.replace(/\/+$/, '');
  const tree: Entry[] = JSON.parse((await directory_tree({ path: root || '/' })).content);
  const fits = nameMatcher(pattern);
  const all = filesOf(tree).filter((path) => fits(path.slice(path.lastIndexOf('/') + 1)));

  const files = [];
  for (const path of all.slice(0, MAX_FILES)) {
    const file = await replaceIn(`${root}/${path}`, find, replace, dryRun);
    if (file.matches > 0 || file.problem !== '') files.push({ path, ...file });
  }
  return {
    searched: Math.min(all.length, MAX_FILES),
    matches: files.reduce((sum, file) => sum + file.matches, 0),
    written: files.filter((file) => file.written).length,
    dryRun,
    files,
    note: all.length > MAX_FILES ? `Only ${MAX_FILES} of ${all.length} files were searched; narrow \`pattern\`.` : '',
  };
}

async function replaceIn(path: string, find: string, replace: string, dryRun: boolean) {
  try {
    const size = Number(/^size: (\d+)$/m.exec((await get_file_info({ path })).content)?.[1]);
    if (!(size <= MAX_FILE_BYTES)) return leftAlone(`has more than ${MAX_FILE_BYTES} bytes`);
    const { content } = await read_text_file({ path });
    // Bytes that are no UTF-8 were read as U+FFFD, and would be written as that.
    if (/[\0\uFFFD]/.test(content)) return leftAlone('is not UTF-8 text');

    const parts = content.split(find);
    if (parts.length === 1 || dryRun) return { matches: parts.length - 1, written: false, problem: '' };
    await write_file({ path, content: parts.join(replace) });
    return { matches: parts.length - 1, written: true, problem: '' };
  } catch (error) {
    return leftAlone(error instanceof Error ? error.message : String(error));
  }
}

function leftAlone(problem: string) {
  return { matches: 0, written: false, problem };
}

/** Return the paths of all files below the folder, in the order of their characters. */
function filesOf(entries: Entry[], above = ''): string[] {
  const paths = entries.flatMap((entry) =>
    entry.type === 'directory' ? filesOf(entry.children ?? [], `${above}${entry.name}/`) : [above + entry.name],
  );
  return paths.sort();
}

/** Return a test for names, in which `*` stands for any characters and `?` for one. */
function nameMatcher(pattern: string): (name: string) => boolean {
  const source = pattern.replace(/[.+^${}()|[\]\\]/g, '\\$&').replace(/\*+/g, '.*').replace(/\?/g, '.');
  const expression = new RegExp(`^${source}$`, 's');
  return (name) => expression.test(name);
}
