import {
	type Context,
	type Emitter,
	type Liquid,
	LiquidError,
	RenderError,
	type Template,
	type Token,
	TokenKind,
	toValue,
	toValueSync,
	UndefinedVariableError,
	Value,
} from 'liquidjs';
import {compareNumbers, Numeral} from '../kit/exact-json.ts';
import type {Constant, Pieces} from '../kit/text.ts';

/** Evaluates a part of an expression. */
type Evaluate = (context: Context) => unknown;

// liquidjs keeps these to itself.
type Lookup = {readonly findScope: (name: string | number) => object};
type Access = Token & {readonly variable?: unknown; readonly props: readonly Token[]};
type Call = {
	readonly handler: (this: object, value: unknown, ...args: unknown[]) => unknown;
	readonly token: Token;
	readonly liquid: Liquid;
};

/**
 * Lets a parsed template render by plain calls. liquidjs makes several generators for each output, to be able to wait for
 * promises; rendering a receipt spends most of its time on them. Expressions with operators or ranges and the tags
 * themselves stay liquidjs's own: it takes values and generators alike.
 *
 * @param split makes pieces of the text between outputs and tags
 */
export function renderDirectly(templates: readonly Template[], split: (text: string) => Pieces): void {
	for (const template of templates) {
		if (template.token.kind === TokenKind.HTML) {
			const {str} = template as Template & {readonly str: string};
			const pieces = split(str);
			template.render = (_, emitter: Emitter) =>
				emitter instanceof PieceEmitter ? emitter.add(pieces) : emitter.write(str);
		}
		for (const argument of template.arguments?.() ?? []) {
			if (argument instanceof Value) {
				[...argument.initial.postfix, ...argument.filters.flatMap(({args}) => args.flat())].forEach(keepDigits);
				evaluateDirectly(argument);
			} else {
				keepDigits(argument);
			}
		}
		if (template.token.kind === TokenKind.Output) {
			const {value} = template as Template & {readonly value: Value};
			template.render = (context: Context, emitter: Emitter) =>
				emitter.write(toValue(toValueSync(value.value(context, false))));
		}
		renderDirectly((toValueSync(template.children?.(false, true)) as Template[] | undefined) ?? [], split);
	}
}

/** As `renderTemplates` of liquidjs's own renderer. */
export function renderAll(templates: readonly Template[], context: Context, emitter: Emitter): string {
	context.renderLimit.check(1);
	for (const template of templates) {
		context.renderLimit.check(1);
		try {
			const text = toValueSync(template.render(context, emitter));
			if (text) {
				emitter.write(text);
			}
		} catch (error) {
			throw LiquidError.is(error) ? error : new RenderError(error as Error, template);
		}
		if (context.breakCalled || context.continueCalled) {
			break;
		}
	}
	return emitter.buffer;
}

/** Collects what is written as one text. */
export class TextEmitter implements Emitter {
	buffer = '';
	readonly #strict: boolean;

	/** `strict`: what has no text is a fault. */
	constructor(strict: boolean) {
		this.#strict = strict;
	}

	write(value: unknown): void {
		this.buffer += textOf(value, this.#strict);
	}
}

/** Collects the text of templates that render directly in pieces. */
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

	/** No two texts stand side by side. */
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

/** A value as a template shows it. */
export function textOf(written: unknown, strict: boolean): string {
	const value = shown(written, strict);
	if (typeof value === 'string') {
		return value;
	}
	return Array.isArray(value) ? value.map(item => textOf(item, strict)).join('') : String(value ?? '');
}

/**
 * A value with an empty text for what would be `[object Object]`, `NaN` or `Infinity`.
 *
 * @throws {Error} strict: there is such a thing
 */
export function shown(written: unknown, strict: boolean): unknown {
	if (typeof written === 'string') {
		return written;
	}
	const value = toValue(written);
	if (Array.isArray(value)) {
		return value.map(item => shown(item, strict));
	}
	const isNumber = typeof value === 'number';
	if (isNumber ? Number.isFinite(value) : typeof value !== 'object' || value === null || value instanceof Numeral) {
		return value;
	}
	if (strict) {
		throw new Error(isNumber ? `this makes ${value}` : 'this is an object: name one of its fields');
	}
	return '';
}

/** A number that a template writes stays itself where no double holds it. */
function keepDigits(token: unknown): void {
	const {kind, content} = Object(token) as {readonly kind?: TokenKind; content?: unknown};
	if (kind === TokenKind.Number) {
		const written = new Numeral((token as Token).getText());
		if (Math.abs(compareNumbers(written, content)) > 0) {
			(token as {content: unknown}).content = written;
		}
	}
}

function evaluateDirectly(value: Value): void {
	const initial = value.initial.postfix.length === 1 ? evaluateOf(value.initial.postfix[0]) : null;
	const steps = value.filters.map(filter => {
		const {handler, token, liquid} = filter as unknown as Call;
		const args = filter.args.map(argument => (Array.isArray(argument) ? null : evaluateOf(argument)));
		return args.every(argument => argument !== null)
			? (input: unknown, context: Context) =>
					handler.call({context, token, liquid}, input, ...args.map(argument => argument(context)))
			: (input: unknown, context: Context) => filter.render(input, context);
	});
	if (!initial) {
		return;
	}
	const direct = (context: Context): unknown => {
		let result = initial(context);
		for (const step of steps) {
			result = toValueSync(step(result, context));
		}
		return result;
	};
	value.value = direct as unknown as Value['value'];
}

/** Null: this kind is left to liquidjs. */
function evaluateOf(token: Token | undefined): Evaluate | null {
	if (token === undefined) {
		return null;
	}
	if ('content' in token) {
		const {content} = token;
		return () => content;
	}
	if (token.kind !== TokenKind.PropertyAccess) {
		return null;
	}
	const {variable, props} = token as Access;
	const names = props.map(prop => ('content' in prop ? prop.content : null));
	const [first] = names;
	if (variable !== undefined || first === undefined || !names.every(isName)) {
		return null;
	}
	return context => {
		try {
			let found = (context as unknown as Lookup).findScope(first as string | number);
			for (const name of names) {
				found = context.readProperty(found, name);
			}
			return found;
		} catch (error) {
			throw new UndefinedVariableError(error as Error, token);
		}
	};
}

const isName = (name: unknown): name is string | number => typeof name === 'string' || typeof name === 'number';
