import {LRUCache} from 'lru-cache';
import {atMost} from '../kit/at-most.ts';
import type {Clock} from '../kit/clock.ts';
import type {Vault} from '../store/sealed.ts';

const holdsMs = 5 * 60_000;
const mostKept = 10_000;

/** What a client carries from one step of a log-in to the next; it can neither be read nor changed there. */
type Pending<Content> = {
	readonly seal: (content: Content) => string;
	/** Undefined: it is unknown, or older than five minutes. */
	readonly open: (sealed: string) => Content | undefined;
	/** As `open`, but only once (in this process). */
	readonly take: (sealed: string) => Content | undefined;
};

/** `kind` keeps the steps of one kind of log-in from passing as those of another. */
export function createPending<Content>(vault: Vault, clock: Pick<Clock, 'now'>, kind: string): Pending<Content> {
	const taken = new LRUCache<string, true>(atMost(mostKept));
	const owner = `pending ${kind}`;
	const opened = (sealed: string): {readonly text: string; readonly content: Content} | undefined => {
		try {
			const text = vault.open(owner, sealed);
			const {content, until} = JSON.parse(text) as {content: Content; until: number};
			return clock.now() < until ? {text, content} : undefined;
		} catch {
			return undefined;
		}
	};
	return {
		seal: content => vault.seal(owner, JSON.stringify({content, until: clock.now() + holdsMs})),
		open: sealed => opened(sealed)?.content,
		take(sealed) {
			const found = opened(sealed);
			// By what was sealed: base64 has several spellings of it.
			if (found === undefined || taken.has(found.text)) {
				return undefined;
			}
			taken.set(found.text, true);
			return found.content;
		},
	};
}
