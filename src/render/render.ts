import type {Template} from 'liquidjs';
import {LRUCache} from 'lru-cache';
import {limitWork, systemClocks, type WorkClocks} from '../mail/work-limit.ts';
import {createEngines, renderTemplates} from './engine.ts';
import {deepestHtml, largestPart, longestSubject, renderTime} from './limits.ts';
import {faultOf, liquidCount} from './liquid-source.ts';
import {nestsTooDeeply, textFromHtml, tidyText} from './text-part.ts';

/** A stored variant, compiled. The id stands for the content: versions are immutable. */
export type RenderVariant = {
	readonly id: string;
	readonly subject: string;
	readonly html: string;
	readonly text: string | null;
};

/** What one mail is rendered with. */
export type RenderInput = {
	/** Plain JSON, parsed by the caller. Its keys cannot replace `recipient`, `unsubscribe_url`, `workspace` and `message`. */
	readonly data: Readonly<Record<string, unknown>>;
	/** The send's, not the variant's: it rules numbers and dates. */
	readonly locale: string;
	readonly timezone: string;
	readonly recipient: {readonly email: string};
	/** Empty: none. */
	readonly unsubscribe_url: string;
	readonly workspace: {readonly name: string};
	readonly message: {readonly id: string};
};

export type RenderResult =
	| {readonly ok: true; readonly subject: string; readonly html: string; readonly text: string}
	| {readonly ok: false; readonly reason: 'template_error' | 'render_limit'; readonly message: string};

export type Renderer = {
	/** Renders one mail, at once. Never throws for what a template or its data do. */
	readonly render: (variant: RenderVariant, input: RenderInput) => RenderResult;
};

type Parsed = {readonly subject: Template[]; readonly html: Template[]; readonly text: Template[] | null};
type Part = 'subject' | 'html' | 'text';

export type RendererOptions = {
	readonly cachedOctets?: number;
	readonly clocks?: WorkClocks;
};

class RenderLimit extends Error {}

const controls = /[\u0000-\u001f\u007f-\u009f\u2028\u2029]+/g;
// V8 says the second where a text would be longer than half a gigabyte.
const spentLimit = /limit exceeded|Invalid string length/;
const parsedOctetsPerLiquid = 1000;

/**
 * Makes a renderer for one thread. It parses a variant once and keeps the ones used last, up to about
 * `cachedOctets` of memory. The limits are cooperative: a single filter call may overrun them, so the thread's
 * owner still needs a clock of its own.
 */
export function createRenderer({cachedOctets = 16_000_000, clocks = systemClocks}: RendererOptions = {}): Renderer {
	const engines = createEngines();
	const cache = new LRUCache<string, Parsed>({maxSize: cachedOctets});

	function parsed({id, subject, html, text}: RenderVariant): Parsed {
		let templates = cache.get(id);
		if (!templates) {
			templates = {
				subject: engines.plain.parse(subject),
				html: engines.html.parse(html),
				text: text === null ? null : engines.plain.parse(text),
			};
			const source = subject + html + (text ?? '');
			cache.set(id, templates, {size: 1 + source.length + parsedOctetsPerLiquid * liquidCount(source)});
		}
		return templates;
	}

	return {
		render(variant, {data, locale, timezone, ...reserved}) {
			// The reserved names come last and win.
			const scope = {...data, ...reserved};
			const state = limitWork(renderTime, clocks);
			const terms = {place: {locale, timezone}, isSpent: () => state() === 'spent'};
			let part: Part | 'parse' = 'parse';

			function rendered(name: Part, templates: Template[]): string {
				part = name;
				const engine = name === 'html' ? engines.html : engines.plain;
				const made = renderTemplates(engine, templates, scope, terms);
				if (made.length > largestPart || Buffer.byteLength(made) > largestPart) {
					throw new RenderLimit(`larger than ${largestPart} octets`);
				}
				return made;
			}

			try {
				const templates = parsed(variant);
				const subject = headerText(rendered('subject', templates.subject));
				const html = rendered('html', templates.html);
				if (!templates.text && nestsTooDeeply(html)) {
					throw new RenderLimit(`nests more than ${deepestHtml} elements`);
				}
				const text = templates.text ? tidyText(rendered('text', templates.text)) : textFromHtml(html);
				return {ok: true, subject, html, text};
			} catch (error) {
				const {message, line, column} = faultOf(error);
				const limit = error instanceof RenderLimit || spentLimit.test(message);
				return {
					ok: false,
					reason: limit ? 'render_limit' : 'template_error',
					message: `${part}, line ${line}, column ${column}: ${message}`,
				};
			}
		},
	};
}

/** One line that may stand in a header: data must not begin another header (RFC 5322 §2.2). */
function headerText(text: string): string {
	const line = text.replace(controls, ' ').trim();
	// Half a surrogate pair at the cut would be no character.
	return line.slice(0, longestSubject).replace(/[\ud800-\udbff]$/, '');
}
