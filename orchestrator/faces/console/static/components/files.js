/** Files that an execution left, and pictures that it showed. */
import {blob} from '../lib/api.js';
import {html, useEffect, useMemo, useState} from '../lib/dom.js';
import {bytes, plural, visible} from '../lib/format.js';
import {useLoaded} from '../lib/load.js';
import {canBeShown, decoded, picture, save} from '../lib/pictures.js';
import {LeftOut} from './execution_facts.js';
import {Panel, Problem} from './ui.js';

/** @param {{execution: any}} props */
export function Files({execution}) {
  const {files, filesLeftOut, filesLeftOutCount} = execution;
  const [error, setError] = useState(null);
  if (!files?.length && !filesLeftOutCount) return null;
  return html`<${Panel} title="Files">
    ${error && html`<${Problem} error=${error} />`}
    <ul class="files">
      ${files.map((file) => html`<${File} key=${file.name} file=${file} onError=${setError} />`)}
    </ul>
    <${LeftOut} files=${filesLeftOut} number=${filesLeftOutCount} />
  <//>`;
}

function File({file, onError}) {
  const name = visible(file.name);
  const download = () => blob(file.url).then((content) => save(content, file.name), onError);
  return html`<li>
    <div class="file-line">
      <span class="file-name"><bdi>${name}</bdi><span class="muted">${bytes(file.bytes)}</span></span>
      <button type="button" aria-label=${`Download ${name}`} onClick=${download}>Download</button>
    </div>
    ${canBeShown(file) && html`<${Preview} file=${file} name=${name} />`}
  </li>`;
}

/** A picture is read once it is on the page. */
function Preview({file, name}) {
  const {value, error, reload} = useLoaded(() => picture(file), [file.url, file.sha256]);
  if (value) return html`<${Picture} content=${value} name=${name} />`;
  return error && html`<p class="muted">The preview could not be loaded. <button type="button" class="as-link" onClick=${reload}>Try again</button></p>`;
}

/** @param {{images: any[], number: number}} props `number`: how many it showed; only those that came while one looked are here */
export function Images({images, number}) {
  if (!images?.length && !number) return null;
  if (!images?.length)
    return html`<${Panel} title="Pictures">
      <p>
        ${plural(number, 'picture was', 'pictures were')} sent to the client and not kept. To keep pictures, save them to${' '}
        <code>/workspace/out</code>.
      </p>
    <//>`;
  return html`<${Panel} title="Pictures">
    <div class="images"><${Pictures} images=${images} /></div>
  <//>`;
}

/** Pictures as the program showed them, whose bytes are in its result. @param {{images: any[]}} props */
export const Pictures = ({images}) => images.map((image, index) => html`<${Shown} key=${index} image=${image} name=${`Picture ${index + 1}`} />`);

function Shown({image, name}) {
  const content = useMemo(() => decoded(image), [image]);
  return content ? html`<${Picture} content=${content} name=${name} />` : html`<p class="muted">${name} cannot be shown.</p>`;
}

/** @param {{content: Blob, name: string}} props */
function Picture({content, name}) {
  const [url, setUrl] = useState('');
  useEffect(() => {
    const made = URL.createObjectURL(content);
    setUrl(made);
    return () => URL.revokeObjectURL(made);
  }, [content]);
  return url && html`<img class="picture" src=${url} alt=${name} />`;
}
