import type {Template} from 'liquidjs';
import {LRUCache} from 'lru-cache';
import {parseExact} from '../../kit/exact-json.ts';
import {encodeConstant, joined, type Pieces, withoutControls} from '../../kit/text.ts';
import {limitWork, systemClocks, type WorkClocks} from '../../kit/work-limit.ts';
import {maxHtmlDepth, maxPartBytes, maxSubjectLength, renderTime} from './limits.ts';
import {liquidEngines, parseDirect, renderTemplates} from './liquid-engine.ts';
import {liquidCount, toProblem} from './liquid-source.ts';
import {nestsTooDeeply, textFromHtml, textPieces, tidyPieces} from './text-part.ts';

/** A compiled variant. The id identifies its content, because versions are immutable. */
export type RenderVariant = {
	readonly id: string;
	readonly subject: string;
	readonly html: string;
	readonly text: string | null;
};

/** The variables and settings for rendering one message. */
export type RenderInput = {
	/**
	 * The text of a JSON object. It cannot override `recipient`, `unsubscribe_url`, `preferences_url`, `workspace` and
	 * `message`.
	 */
	readonly data: string;
	/** The locale of the send, not of the variant. It determines the format of numbers and dates. */
	readonly locale: string;
	readonly timezone: string;
	readonly recipient: {readonly email: string};
	/** Empty if the message has no such link. */
	readonly unsubscribe_url: string;
	readonly preferences_url: string;
	readonly workspace: {readonly name: string};
	/** `locale` is the language of the text, for the `lang` attribute of the HTML. */
	readonly message: {readonly id: string; readonly locale: string};
};

type Result<Text> =
	| {readonly ok: true; readonly subject: string; readonly html: Text; readonly text: Text}
	| {readonly ok: false; readonly reason: 'template_error' | 'render_limit'; readonly message: string};
export type RenderResult = Result<string>;

export type Renderer = {
	/** Renders one message synchronously. Never throws because of a template or its data. */
	readonly renderPieces: (variant: RenderVariant, input: RenderInput, limitMs?: number) => Result<Pieces>;
	/** Like `renderPieces`, with the pieces joined to texts. */
	readonly render: (variant: RenderVariant, input: RenderInput) => RenderResult;
};

type Parsed = {readonly subject: Template[]; readonly html: Template[]; readonly text: Template[] | null};
type Part = 'subject' | 'html' | 'text';

type RendererOptions = {
	readonly cachedOctets?: number;
	readonly clocks?: WorkClocks;
	/** Whether to reject values without a text, such as objects and `NaN`, as in previews. In mail they are empty. */
	readonly strict?: boolean;
};

class RenderLimit extends Error {}

// V8 reports the second message for texts longer than half a gigabyte.
const spentLimit = /limit exceeded|Invalid string length/;
const octetsPerLiquid = 1000;
/** Includes the source and the data derived from its constants to compose messages. */
const octetsPerCharacter = 4;

/**
 * Creates a renderer for one thread. It parses a variant once and caches recently used ones in about `cachedOctets` of
 * memory. The limits are cooperative: a single filter call can exceed them, so the owner of the thread must enforce a
 * timeout of its own.
 */
export function createRenderer({
	cachedOctets = 16_000_000,
	clocks = systemClocks,
	strict = false,
}: RendererOptions = {}): Renderer {
	const engines = liquidEngines();
	const cache = new LRUCache<string, Parsed>({maxSize: cachedOctets});

	function parse({id, subject, html, text}: RenderVariant): Parsed {
		let templates = cache.get(id);
		if (!templates) {
			templates = {
				subject: parseDirect(engines.plain, subject, text => [text]),
				html: parseDirect(engines.html, html, text => [encodeConstant(text)]),
				text: text === null ? null : parseDirect(engines.plain, text, textPieces),
			};
			const source = subject + html + (text ?? '');
			const size = 1 + octetsPerCharacter * source.length + octetsPerLiquid * liquidCount(source);
			cache.set(id, templates, {size});
		}
		return templates;
	}

	function renderPieces(
		variant: RenderVariant,
		{data, locale, timezone, ...reserved}: RenderInput,
		limitMs = renderTime,
	): Result<Pieces> {
		// The reserved names come last, so they override the data.
		const scope = {...(parseExact(data) as object), ...reserved};
		const state = limitWork(limitMs, clocks);
		const terms = {place: {locale, timezone}, strict, isSpent: () => state() === 'spent'};
		let part: Part | 'parse' = 'parse';

		function renderPart(name: Part, templates: Template[]): Pieces {
			part = name;
			const engine = name === 'html' ? engines.html : engines.plain;
			// A copy for each part, because `increment` writes to the scope.
			const pieces = renderTemplates(engine, templates, {...scope}, terms);
			if (isTooLarge(pieces)) {
				throw new RenderLimit(`larger than ${maxPartBytes} octets`);
			}
			return pieces;
		}

		try {
			const templates = parse(variant);
			const subject = headerText(joined(renderPart('subject', templates.subject)));
			const html = renderPart('html', templates.html);
			const text = templates.text ? tidyPieces(renderPart('text', templates.text)) : [textFor(joined(html))];
			return {ok: true, subject, html, text};
		} catch (error) {
			return toFailure(part, error);
		}
	}

	return {
		renderPieces,
		render(variant, input) {
			const result = renderPieces(variant, input);
			return result.ok ? {...result, html: joined(result.html), text: joined(result.text)} : result;
		},
	};
}

function toFailure(part: Part | 'parse', error: unknown): Result<never> {
	const {message, line, column} = toProblem(error);
	const isLimit = error instanceof RenderLimit || spentLimit.test(message);
	return {
		ok: false,
		reason: isLimit ? 'render_limit' : 'template_error',
		message: `${part}, line ${line}, column ${column}: ${message}`,
	};
}

function isTooLarge(pieces: Pieces): boolean {
	const units = pieces.reduce((sum, piece) => sum + (typeof piece === 'string' ? piece : piece.text).length, 0);
	// A UTF-16 unit takes at most three octets in UTF-8.
	return units > maxPartBytes || (3 * units > maxPartBytes && Buffer.byteLength(joined(pieces)) > maxPartBytes);
}

function textFor(html: string): string {
	if (nestsTooDeeply(html)) {
		throw new RenderLimit(`nests more than ${maxHtmlDepth} elements`);
	}
	return textFromHtml(html);
}

/** Returns a single line for a header, so that data cannot start another header (RFC 5322 §2.2). */
function headerText(text: string): string {
	const line = withoutControls(text).trim();
	// Do not cut a surrogate pair in half.
	return line.slice(0, maxSubjectLength).replace(/[\ud800-\udbff]$/, '');
}
