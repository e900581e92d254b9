import type {Template} from 'liquidjs';
import {LRUCache} from 'lru-cache';
import {parseExact} from '../kit/exact-json.ts';
import {constantOf, joined, type Pieces, withoutControls} from '../kit/text.ts';
import {limitWork, systemClocks, type WorkClocks} from '../kit/work-limit.ts';
import {deepestHtml, largestPart, maxSubjectLength, renderTime} from './limits.ts';
import {liquidEngines, parseDirect, renderTemplates} from './liquid-engine.ts';
import {faultOf, liquidCount} from './liquid-source.ts';
import {nestsTooDeeply, textFromHtml, textPieces, tidyPieces} from './text-part.ts';

/** A stored variant, compiled. The id stands for the content: versions are immutable. */
export type RenderVariant = {
	readonly id: string;
	readonly subject: string;
	readonly html: string;
	readonly text: string | null;
};

/** What one mail is rendered with. */
export type RenderInput = {
	/**
	 * The text of a JSON object. Its names cannot replace `recipient`, `unsubscribe_url`, `preferences_url`,
	 * `workspace` and `message`.
	 */
	readonly data: string;
	/** The send's, not the variant's: it rules numbers and dates. */
	readonly locale: string;
	readonly timezone: string;
	readonly recipient: {readonly email: string};
	/** Empty: none. */
	readonly unsubscribe_url: string;
	readonly preferences_url: string;
	readonly workspace: {readonly name: string};
	/** In which language it is written, for the `lang` of its html. */
	readonly message: {readonly id: string; readonly locale: string};
};

type Result<Text> =
	| {readonly ok: true; readonly subject: string; readonly html: Text; readonly text: Text}
	| {readonly ok: false; readonly reason: 'template_error' | 'render_limit'; readonly message: string};
export type RenderResult = Result<string>;

export type Renderer = {
	/** Renders one mail, at once. Never throws for what a template or its data do. */
	readonly renderPieces: (variant: RenderVariant, input: RenderInput, limitMs?: number) => Result<Pieces>;
	/** The same with whole texts. */
	readonly render: (variant: RenderVariant, input: RenderInput) => RenderResult;
};

type Parsed = {readonly subject: Template[]; readonly html: Template[]; readonly text: Template[] | null};
type Part = 'subject' | 'html' | 'text';

type RendererOptions = {
	readonly cachedOctets?: number;
	readonly clocks?: WorkClocks;
	/**
	 * For previews: an object, or a number that does not exist, is a fault where a text is wanted. In mail it is an
	 * empty text.
	 */
	readonly strict?: boolean;
};

class RenderLimit extends Error {}

// V8 says the second where a text would be longer than half a gigabyte.
const spentLimit = /limit exceeded|Invalid string length/;
const parsedOctetsPerLiquid = 1000;
/** The text itself, and what is made of its constants to compose mail. */
const octetsPerCharacter = 4;

/**
 * Makes a renderer for one thread. It parses a variant once and keeps the ones used last, up to about
 * `cachedOctets` of memory. The limits are cooperative: a single filter call may overrun them, so the thread's
 * owner still needs a clock of its own.
 */
export function createRenderer({
	cachedOctets = 16_000_000,
	clocks = systemClocks,
	strict = false,
}: RendererOptions = {}): Renderer {
	const engines = liquidEngines();
	const cache = new LRUCache<string, Parsed>({maxSize: cachedOctets});

	function parsed({id, subject, html, text}: RenderVariant): Parsed {
		let templates = cache.get(id);
		if (!templates) {
			templates = {
				subject: parseDirect(engines.plain, subject, text => [text]),
				html: parseDirect(engines.html, html, text => [constantOf(text)]),
				text: text === null ? null : parseDirect(engines.plain, text, textPieces),
			};
			const source = subject + html + (text ?? '');
			cache.set(id, templates, {
				size: 1 + octetsPerCharacter * source.length + parsedOctetsPerLiquid * liquidCount(source),
			});
		}
		return templates;
	}

	function renderPieces(
		variant: RenderVariant,
		{data, locale, timezone, ...reserved}: RenderInput,
		limitMs = renderTime,
	): Result<Pieces> {
		// The reserved names come last and win.
		const scope = {...(parseExact(data) as object), ...reserved};
		const state = limitWork(limitMs, clocks);
		const terms = {place: {locale, timezone}, strict, isSpent: () => state() === 'spent'};
		let part: Part | 'parse' = 'parse';

		function rendered(name: Part, templates: Template[]): Pieces {
			part = name;
			const engine = name === 'html' ? engines.html : engines.plain;
			// A copy, because `increment` writes into it and must start anew in the next part.
			const made = renderTemplates(engine, templates, {...scope}, terms);
			if (isTooLarge(made)) {
				throw new RenderLimit(`larger than ${largestPart} octets`);
			}
			return made;
		}

		try {
			const templates = parsed(variant);
			const subject = headerText(joined(rendered('subject', templates.subject)));
			const html = rendered('html', templates.html);
			const text = templates.text ? tidyPieces(rendered('text', templates.text)) : [textOf(joined(html))];
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
	}

	return {
		renderPieces,
		render(variant, input) {
			const made = renderPieces(variant, input);
			return made.ok ? {...made, html: joined(made.html), text: joined(made.text)} : made;
		},
	};
}

function isTooLarge(pieces: Pieces): boolean {
	const units = pieces.reduce((sum, piece) => sum + (typeof piece === 'string' ? piece : piece.text).length, 0);
	// A UTF-16 unit makes three octets at most.
	return units > largestPart || (3 * units > largestPart && Buffer.byteLength(joined(pieces)) > largestPart);
}

function textOf(html: string): string {
	if (nestsTooDeeply(html)) {
		throw new RenderLimit(`nests more than ${deepestHtml} elements`);
	}
	return textFromHtml(html);
}

/** One line for a header: data must not begin another header (RFC 5322 §2.2). */
function headerText(text: string): string {
	const line = withoutControls(text).trim();
	// Half a surrogate pair at the cut would be no character.
	return line.slice(0, maxSubjectLength).replace(/[\ud800-\udbff]$/, '');
}
