// What servers and tools are called inside a program. The daemon decides (domain/names.py); this says the same for names
// that need no hash.

const LONGEST = 60;
const RESERVED = new Set(
  (
    'False None True and as assert async await break class continue def del elif else except finally for from global if ' +
    'import in is lambda nonlocal not or pass raise return try while with yield arguments case catch const debugger ' +
    'default delete do enum eval export extends false function implements instanceof interface let new null package ' +
    'private protected public static super switch this throw true typeof undefined var void constructor exports ' +
    'globalThis Object Promise prototype require then __proto__ Any Literal NotRequired TypeAlias TypedDict Unpack ' +
    'annotations builtins overload TYPE_CHECKING _Tool _tool'
  ).split(' '),
);
const BESIDE_SERVERS = new Set(
  'discovery errors content output _arguments _client _discovery _http _lazy _names _paths _pending'.split(' '),
);
const BESIDE_TOOLS = new Set(['index']);
// Characters that are allowed in identifiers but cannot be seen.
const INVISIBLE = /[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\u{e0100}-\u{e01ef}]/gu;

/** Returns null for a name whose identifier would hold a hash. */
function identifier(name) {
  const visible = name.normalize('NFKC').replace(INVISIBLE, '_');
  let spelled = Array.from(visible, (character) => (/[\p{XIDC}_]/u.test(character) ? character : '_')).join('');
  if (!/^[\p{XIDS}_]/u.test(spelled)) spelled = `_${spelled}`;
  if (Array.from(spelled).length > LONGEST) return null;
  const isMagic = spelled.startsWith('__') && spelled.endsWith('__');
  return RESERVED.has(spelled) || isMagic ? `${spelled}_` : spelled;
}

function beside(files, spelled) {
  return spelled !== null && files.has(spelled.toLowerCase()) ? `${spelled}_` : spelled;
}

export const serverIdentifier = (name) => beside(BESIDE_SERVERS, identifier(name));
export const toolIdentifier = (name) => beside(BESIDE_TOOLS, identifier(name));
