import {type Emitter, toValue} from 'liquidjs';
import {Numeral} from '../../kit/exact-json.ts';
import type {Constant, Pieces} from '../../kit/text.ts';

/** Collects the output as one text. */
export class TextEmitter implements Emitter {
	buffer = '';
	readonly #strict: boolean;

	/** With `strict`, values without a text are errors. */
	constructor(strict: boolean) {
		this.#strict = strict;
	}

	write(value: unknown): void {
		this.buffer += textOf(value, this.#strict);
	}
}

/** Collects the output of templates that render directly as pieces, so that constant texts are not copied. */
export class PieceEmitter extends TextEmitter {
	readonly #pieces: Array<string | Constant> = [];

	add(pieces: Pieces): void {
		for (const piece of pieces) {
			if (typeof piece === 'string') {
				this.buffer += piece;
			} else {
				this.#closeText();
				this.#pieces.push(piece);
			}
		}
	}

	/** Returns the pieces, with adjacent texts merged. */
	end(): Pieces {
		this.#closeText();
		return this.#pieces;
	}

	#closeText(): void {
		if (this.buffer !== '') {
			this.#pieces.push(this.buffer);
			this.buffer = '';
		}
	}
}

/** Returns the text of a value in a template. */
export function textOf(input: unknown, strict: boolean): string {
	const value = toRenderable(input, strict);
	if (typeof value === 'string') {
		return value;
	}
	return Array.isArray(value) ? value.map(item => textOf(item, strict)).join('') : String(value ?? '');
}

/**
 * Replaces values that would be rendered as `[object Object]`, `NaN` or `Infinity` by an empty text.
 *
 * @throws {Error} for such a value, if `strict`
 */
export function toRenderable(input: unknown, strict: boolean): unknown {
	if (typeof input === 'string') {
		return input;
	}
	const value = toValue(input);
	if (Array.isArray(value)) {
		return value.map(item => toRenderable(item, strict));
	}
	const isNumber = typeof value === 'number';
	if (isNumber ? Number.isFinite(value) : typeof value !== 'object' || value === null || value instanceof Numeral) {
		return value;
	}
	if (strict) {
		throw new Error(isNumber ? `this results in ${value}` : 'this is an object: use one of its fields');
	}
	return '';
}
