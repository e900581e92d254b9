import {readAddress} from '../../api/schemas/formats.ts';
import {isId, isTemplateId} from '../../mail/ids.ts';
import {type RecipientState, recipientStates} from '../../mail/message.ts';
import {type Asked, metadataTerm, mostAsked, searchTerms, tagTerm, valueTerm} from '../../mail/terms.ts';
import type {MessageFilter} from '../../store/message-scan.ts';

type Filter = Omit<MessageFilter, 'workspaceId'>;

/** What the search field takes, for people. */
export const searchHint =
	'an address, words of the subject, order_id=1042 or 1042 alone, tag:receipt, from:a@b.example, an id or Message-ID';

/** The filter that a page's query asks for; null: nothing can match, no text of this kind is known, or it asks for too much. */
export function filterOf(
	query: URLSearchParams,
	now: number,
	readMessageId: (messageId: string) => string | null,
): Filter | null {
	const asked = searched(query.get('q')?.trim() ?? '', readMessageId);
	const status = query.get('status') ?? '';
	const template = query.get('template') ?? '';
	const hours = Number(query.get('hours') ?? '');
	if (asked === null || (template !== '' && !isTemplateId(template))) {
		return null;
	}
	return {
		...asked,
		...(isState(status) && {status}),
		...(template !== '' && {templateId: template}),
		...(hours > 0 && {since: now - hours * 3_600_000}),
	};
}

const isState = (text: string): text is RecipientState => (recipientStates as readonly string[]).includes(text);

/** Each word of the search tells by its form what it is. */
function searched(text: string, readMessageId: (messageId: string) => string | null): Filter | null {
	if (text === '') {
		return {};
	}
	const terms: Asked[] = [];
	const words: string[] = [];
	let filter: Filter = {};
	for (const part of text.split(/\s+/)) {
		const [, key = '', value = ''] = /^([^\s:=<>"]+)[:=](.+)$/u.exec(part) ?? [];
		if (isId('msg', part)) {
			filter = {...filter, id: part};
		} else if (/^<.+>$/.test(part)) {
			const id = readMessageId(part);
			if (id === null) {
				return null;
			}
			filter = {...filter, id};
		} else if (key === 'tag') {
			terms.push(tagTerm(value));
		} else if (key === 'from' || key === 'to' || readAddress(part) !== null) {
			const address = readAddress(key === 'from' || key === 'to' ? value : part);
			if (address === null) {
				return null;
			}
			filter = {...filter, [key === 'from' ? 'fromKey' : 'toKey']: address.key};
		} else if (part.includes('=') && key !== '') {
			terms.push([metadataTerm(key, value), valueTerm(part)]);
		} else {
			words.push(part);
		}
	}
	if (terms.length > mostAsked) {
		return null;
	}
	const all = [...terms, ...(words.length === 0 ? [] : searchTerms(words.join(' ')))];
	return all.length === 0 ? filter : {...filter, terms: all};
}
