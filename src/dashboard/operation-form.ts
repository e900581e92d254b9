import type {TSchema} from 'typebox';
import {type Html, html} from '../hosted/html.ts';
import type {Role} from '../mail/operator.ts';
import {type Field, fieldText, listFields, lowerFirst, parseField, toInput, valueAt} from '../resources/fields.ts';
import {type Context, type InputOf, type Operation, perform, Refused} from '../resources/operation.ts';
import {compileCheck} from '../resources/validate.ts';
import {checkbox, input, join, select, textarea} from './markup.ts';
import type {DashboardParts} from './parts.ts';
import {type Answer, go, type Route, type Visit} from './route.ts';

/** Shows a page again, with the problem of one of its forms. */
type Show = (visit: Visit, problem: string) => Promise<Answer>;

/** The page that contains the forms, and its path. */
type Origin<Workspace extends string | null> = {
	readonly path: string;
	readonly show: Show;
	/** The workspace of its operations, or `null` for the whole installation. By default, the workspace of the page. */
	readonly workspaceId?: (visit: Visit) => Workspace;
};

type Reading<Input, Extra> = {
	/** Runs before the form is read. Throws `Refused`. */
	readonly before?: (visit: Visit) => Promise<unknown>;
	/** Reads the input. By default, its fields are the form's fields and the path's parameters. Throws `Refused`. */
	readonly read?: (visit: Visit) => Input;
	/** Returns what the operation needs besides its input, before its transaction begins. Throws `Refused`. */
	readonly prepare?: (visit: Visit, input: Input) => Promise<Extra>;
};

type Parts = Pick<DashboardParts, 'writer' | 'change' | 'vault'>;

/** Returns the context in which a visitor performs operations. */
export function toContext<Workspace extends string | null>(
	{writer, change, vault}: Parts,
	{tools}: Visit,
	workspaceId: Workspace,
): Context<Workspace> {
	return {
		face: 'dashboard',
		workspaceId,
		mode: 'live',
		tools,
		writer,
		change,
		vault: async () => vault,
	};
}

/**
 * Creates routes for the forms of a page. The form of an operation requires the operation's role. `done` returns the
 * notice that the page then shows, or another page. The path of the page may contain parameters of the form's path.
 */
export const operationForms =
	<Workspace extends string | null = string>(parts: Parts, origin: Origin<Workspace>) =>
	<Input extends TSchema, Result, Extra>(
		operation: Operation<Input, Result, Workspace, Extra>,
		path: string,
		done: (result: Result, visit: Visit) => Answer | string | Promise<Answer>,
		{before, read, prepare}: Reading<InputOf<Input>, Extra> = {},
	): Route => {
		const {input, role, everywhere, fresh} = operation;

		async function answer(visit: Visit): Promise<Answer> {
			await before?.(visit);
			const value = (read ? read(visit) : readForm(input, visit)) as InputOf<Input>;
			checkInput(input, value);
			const complete = {...value, ...(await prepare?.(visit, value))} as InputOf<Input> & Extra;
			const workspaceId = origin.workspaceId ? origin.workspaceId(visit) : (visit.workspace.id as Workspace);
			const context = toContext(parts, visit, workspaceId);
			const outcome = await done(await perform(operation, context, complete), visit);
			const page = origin.path.replace(/:(\w+)/g, (_, name) => visit.params[name] ?? '');
			return typeof outcome === 'string' ? go(page, outcome) : outcome;
		}

		const guards = {...(everywhere && {everywhere}), ...(fresh && {fresh})};
		return {...pageForms(origin.show)(path, role, answer, guards), operation};
	};

/** Creates routes for forms that perform no operation. If one throws `Refused`, the page is shown again. */
export const pageForms =
	(show: Show) =>
	(
		path: string,
		role: Role,
		answer: Route['answer'],
		guards: Pick<Route, 'everywhere' | 'fresh' | 'file'> = {},
	): Route => ({
		method: 'POST',
		path,
		role,
		...guards,
		answer: visit =>
			answer(visit).catch(error => {
				if (error instanceof Refused && shownAgain.has(error.code)) {
					return show(visit, error.page);
				}
				throw error;
			}),
	});

const shownAgain: ReadonlySet<Refused['code']> = new Set([
	'conflict',
	'not_cancellable',
	'rate_limited',
	'unprocessable_entity',
]);

/** Rejects a form: its page is shown again with this sentence. */
export function rejectForm(page: string): never {
	throw new Refused('unprocessable_entity', {wrong: page, next: '', page});
}

/** Rejects a form unless its word was typed as confirmation (see `act`). */
export function checkTyped({form}: Visit, word: string, problem: string): void {
	if (form.get('typed')?.trim() !== word) {
		rejectForm(problem);
	}
}

function checkInput(input: TSchema, value: unknown): void {
	const [violation] = compileCheck(input)(value);
	if (violation) {
		rejectForm(`The ${violation.field.replaceAll('_', ' ')} ${violation.message}.`);
	}
}

/** Returns the submitted fields of an operation's form, and the parameters of its path. */
function readForm(input: TSchema, {form, params}: Visit): object {
	const fields = listFields(input).filter(({name}) => !Object.hasOwn(params, name));
	return {...readFields<object>(fields, form), ...params};
}

type Drawing = {
	/** The current values of the object. */
	readonly values?: object;
	/** The rejected form, whose fields replace the values. */
	readonly typed?: URLSearchParams;
	/** The choices of fields whose schema does not contain them, by the name of the field. */
	readonly choices?: Readonly<Record<string, readonly string[]>>;
	/** Whether to omit the help texts, for a form in each row of a list. */
	readonly isCompact?: boolean;
};

/** Draws the inputs of a form from the fields of an operation's input. */
export function fieldInputs(
	fields: readonly Field[],
	{values = {}, typed = new URLSearchParams(), choices = {}, isCompact = false}: Drawing,
): Html {
	const isShownAgain = fields.some(({name}) => typed.has(name));
	const isCreation = fields.some(({isRequired}) => isRequired);
	const inputs = fields.map(field => {
		const {name, description} = field;
		const traits = {
			hint: isCompact || description === '' ? undefined : toHint(description),
			required: isCreation ? field.isRequired : !field.isNullable && field.default === undefined,
			choices: choices[name] ?? field.schema.enum,
		};
		if (field.isList) {
			const chosen = isShownAgain ? typed.getAll(name) : (valueAt(values, name) as readonly string[] | undefined);
			return listInput(field, chosen ?? [], traits);
		}
		const text = isShownAgain ? (typed.get(name) ?? '') : fieldText(field, valueAt(values, name));
		return fieldInput(field, text, traits);
	});
	return join(inputs);
}

/** Shows the parts of a description between backticks as code. */
function toHint(description: string): Html {
	return join(
		description.split('`').map((part, index) => (index % 2 === 0 ? html`${part}` : html`<code>${part}</code>`)),
	);
}

type InputTraits = {
	readonly hint: Html | undefined;
	readonly required: boolean;
	readonly choices: readonly string[] | undefined;
};

function fieldInput(field: Field, value: string, {hint, required, choices}: InputTraits): Html {
	const {name, label, kind, isNullable, schema, default: initial} = field;
	const placeholder = initial ?? 'none';
	if (kind === 'flag') {
		return checkbox(name, 'true', html`${label}${hint ? html` <small>${hint}</small>` : null}`, value === 'true');
	}
	if (choices) {
		const words = new Set([value, ...choices].filter(word => word !== ''));
		const options = [...words].map(word => ({value: word, label: choiceLabel(field, word)}));
		const mayBeBlank = isNullable || (!required && initial === undefined);
		return select({name, label, value}, [...(mayBeBlank ? [{value: '', label: placeholder}] : []), ...options]);
	}
	const parts = {name, label, value, ...(hint && {hint})};
	const type = schema.format?.endsWith('email') ? 'email' : 'text';
	return kind === 'long text'
		? textarea(parts, 2)
		: input({...parts, type, required, ...(placeholder !== 'none' && {placeholder})});
}

/** Draws a box for each choice of a list. Other values are separated by commas. */
function listInput(field: Field, chosen: readonly string[], {hint, choices}: InputTraits): Html {
	const {name, label, minItems} = field;
	if (!choices) {
		return input({name, label, value: chosen.join(', '), required: minItems > 0, ...(hint && {hint})});
	}
	const boxes = choices.map(word => checkbox(name, word, choiceLabel(field, word), chosen.includes(word)));
	return html`<fieldset><legend>${label}</legend>${boxes}</fieldset>`;
}

function choiceLabel({meanings = {}}: Field, word: string): string {
	return meanings[word] === undefined ? word : `${word}: ${meanings[word]}`;
}

/**
 * Reads the submitted fields of a form, trimmed. An empty text clears a field that may be `null`, and leaves the
 * default of any other. Of the fields that were not submitted, a flag is `false`, a required text is empty, and any
 * other stays unchanged. In a form with required fields, which creates an object, optional fields may be left empty.
 * Throws `Refused` if a text is not valid.
 */
export function readFields<Input extends object>(fields: readonly Field[], form: URLSearchParams): Input {
	const isCreation = fields.some(({isRequired}) => isRequired);
	const entries = fields.flatMap(field => {
		const {name, kind, isList, isRequired, isNullable} = field;
		if (isList) {
			const values = readList(field, form.getAll(name));
			return form.has(name) ? [[name, values] as const] : [];
		}
		if (kind !== 'flag' && !isRequired && !form.has(name)) {
			return [];
		}
		const text = form.get(name)?.trim() ?? '';
		if (text === '' && isNullable) {
			return [[name, null] as const];
		}
		const mayOmit = isCreation ? !isRequired : field.default !== undefined;
		const isOmitted = text === '' && mayOmit && kind !== 'flag';
		return isOmitted ? [] : [[name, readValue(field, text)] as const];
	});
	return toInput<Input>(entries);
}

function readValue(field: Field, text: string): unknown {
	const parsed = parseField(field, text);
	return parsed.ok ? parsed.value : rejectForm(`The ${lowerFirst(field.label)} ${parsed.problem}.`);
}

/** Reads the boxes that were checked, or the values of a text. */
function readList(field: Field, submitted: readonly string[]): readonly unknown[] {
	const {label, minItems, maxItems} = field;
	const texts = new Set(submitted.flatMap(text => text.split(/[\s,]+/)).filter(text => text !== ''));
	if (texts.size < minItems && (field.isRequired || submitted.length > 0)) {
		rejectForm(`Choose at least one of the ${lowerFirst(label)}.`);
	}
	if (texts.size > maxItems) {
		rejectForm(`The ${lowerFirst(label)} must have at most ${maxItems} values.`);
	}
	return [...texts].map(text => readValue(field, text));
}
