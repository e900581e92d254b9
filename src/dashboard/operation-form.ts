import type {TSchema} from 'typebox';
import {type Html, html} from '../hosted/html.ts';
import type {Role} from '../mail/operator.ts';
import {type Field, fieldText, listFields, lowerFirst, parseField, toInput, valueAt} from '../resources/fields.ts';
import {type Context, type InputOf, type Operation, perform, Refused} from '../resources/operation.ts';
import {compileCheck} from '../resources/validate.ts';
import {checkbox, input, join, select, textarea} from './markup.ts';
import type {DashboardParts} from './parts.ts';
import {type Answer, go, type Route, type Visit} from './route.ts';

/** A page again, with what was wrong with a form of it. */
type Show = (visit: Visit, problem: string) => Promise<Answer>;

/** The page that has the forms, and where it is. */
type Origin = {readonly path: string; readonly show: Show};

type Reading<Input> = {
	/** Looks before the form is read. Throws `Refused`. */
	readonly before?: (visit: Visit) => Promise<void>;
	/** Absent: each field of the input is a field of the form or a parameter of the path. Throws `Refused`. */
	readonly read?: (visit: Visit) => Input;
};

type Parts = Pick<DashboardParts, 'writer' | 'change' | 'vault'>;

/** Who visits, for an operation. */
export function toContext({writer, change, vault}: Parts, {workspace, tools}: Visit): Context {
	return {
		face: 'dashboard',
		workspaceId: workspace.id,
		mode: 'live',
		tools,
		writer,
		change,
		vault: async () => vault,
	};
}

/**
 * Makes routes for the forms of a page. The form of an operation needs the operation's role and works in the workspace
 * that is looked at. `done` is what the page then says, or another page.
 */
export const operationForms =
	(parts: Parts, origin: Origin) =>
	<Input extends TSchema, Result>(
		operation: Operation<Input, Result>,
		path: string,
		done: (result: Result, visit: Visit) => Answer | string | Promise<Answer>,
		{before, read}: Reading<InputOf<Input>> = {},
	): Route => {
		const {input, role, everywhere, fresh} = operation;

		async function answer(visit: Visit): Promise<Answer> {
			await before?.(visit);
			const value = read ? read(visit) : readForm(input, visit);
			checkInput(input, value);
			const result = await done(
				await perform(operation, toContext(parts, visit), value as InputOf<Input>),
				visit,
			);
			return typeof result === 'string' ? go(origin.path, result) : result;
		}

		return pageForms(origin.show)(path, role, answer, {...(everywhere && {everywhere}), ...(fresh && {fresh})});
	};

/**
 * Makes routes for the forms of a page that do no operation. Where they throw what was wrong, the page is shown again.
 */
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

/** Throws what was wrong with a form: its page is shown again with this sentence. */
export function wrong(page: string): never {
	throw new Refused('unprocessable_entity', {wrong: page, next: '', page});
}

/** For forms with a word that must be typed (`act`). */
export function checkTyped({form}: Visit, word: string, problem: string): void {
	if (form.get('typed')?.trim() !== word) {
		wrong(problem);
	}
}

function checkInput(input: TSchema, value: unknown): void {
	const [violation] = compileCheck(input)(value);
	if (violation) {
		wrong(`The ${violation.field.replaceAll('_', ' ')} ${violation.message}.`);
	}
}

/** The fields that the form of an operation sent, and the parameters of its path. */
function readForm(input: TSchema, {form, params}: Visit): object {
	const fields = listFields(input).filter(({name}) => !Object.hasOwn(params, name));
	return {...readFields<object>(fields, form), ...params};
}

type Drawing = {
	/** What is set of the object. */
	readonly values?: object;
	/** What was typed before something was wrong with it, which takes the place of the values. */
	readonly typed?: URLSearchParams;
	/** The words of fields whose schema does not have them, by the name of the field. */
	readonly choices?: Readonly<Record<string, readonly string[]>>;
	/** Without the help texts, for a form that stands in each row of a list. */
	readonly isCompact?: boolean;
};

/** Draws the inputs of a form from the fields of an operation's input. */
export function fieldInputs(
	fields: readonly Field[],
	{values = {}, typed = new URLSearchParams(), choices = {}, isCompact = false}: Drawing,
): Html {
	const isRepeated = fields.some(({name}) => typed.has(name));
	const isCreation = fields.some(field => field.isRequired);
	const drawn = fields.map(field => {
		const {name, description} = field;
		const text = isRepeated ? (typed.get(name) ?? '') : fieldText(field, valueAt(values, name));
		return fieldInput(field, text, {
			hint: isCompact || description === '' ? undefined : description,
			words: choices[name] ?? field.schema.enum,
			isRequired: field.isRequired || !(field.isNullable || isCreation),
		});
	});
	return join(drawn);
}

function fieldInput(
	{name, label, kind, schema, default: placeholder = 'none'}: Field,
	value: string,
	{hint, words, isRequired}: {hint: string | undefined; words: readonly string[] | undefined; isRequired: boolean},
): Html {
	if (kind === 'flag') {
		return checkbox(name, 'true', html`${label}${hint ? html` <small>${hint}</small>` : null}`, value === 'true');
	}
	if (words) {
		const options = new Set([value, ...words].filter(word => word !== ''));
		const choices = [...options].map(word => ({value: word, label: word}));
		return select({name, label, value}, isRequired ? choices : [{value: '', label: placeholder}, ...choices]);
	}
	const parts = {name, label, value, ...(hint && {hint})};
	return kind === 'long text'
		? textarea(parts, 2)
		: input({
				...parts,
				required: isRequired,
				...(schema.format?.endsWith('email') && {type: 'email'}),
				...(placeholder !== 'none' && {placeholder}),
			});
}

/**
 * Reads the fields that a form sent, without space around them. An empty text clears a field that may be `null`. Of
 * the fields that were not sent, a flag is `false`, a required text is empty, and any other stays as it is. In a form
 * with required fields, which creates an object, a field that is optional may be left empty. Throws `Refused` if a text
 * is not valid.
 */
export function readFields<Input extends object>(fields: readonly Field[], form: URLSearchParams): Input {
	const isCreation = fields.some(({isRequired}) => isRequired);
	const entries = fields.flatMap(field => {
		const {name, label, kind, isRequired, isNullable} = field;
		if (kind !== 'flag' && !isRequired && !form.has(name)) {
			return [];
		}
		const text = form.get(name)?.trim() ?? '';
		if (text === '' && isNullable) {
			return [[name, null] as const];
		}
		if (text === '' && isCreation && !isRequired && kind !== 'flag') {
			return [];
		}
		const parsed = parseField(field, text);
		return [[name, parsed.ok ? parsed.value : wrong(`The ${lowerFirst(label)} ${parsed.problem}.`)] as const];
	});
	return toInput<Input>(entries);
}
