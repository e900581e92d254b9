import {html} from './html.ts';
import type {Brand, Page} from './page.ts';
import type {Texts} from './texts/wording.ts';

/** The pages that say why nothing was done. */
export type NoticeKind = 'forged' | 'expired' | 'unclear' | 'tooMany';

/** The page of a link or a request that cannot be followed: forged, expired, not understood, one too many. */
export function noticePage(kind: NoticeKind, status: number, texts: Texts, brand: Brand | null): Page {
	const {title, text} = texts[kind];
	return {
		status,
		texts,
		brand,
		icon: 'warning',
		title,
		content: html`<p>${text}</p>
<p class="soft">${texts.nothingChanged}</p>`,
	};
}

/** The page of a tracked link that is not ours: it leads nowhere. */
export function lostPage(texts: Texts): Page {
	const {title, text} = texts.forged;
	return {status: 404, texts, brand: null, icon: 'warning', title, content: html`<p>${text}</p>`};
}
