import type {TSchema} from 'typebox';
import type {Role} from '../mail/operator.ts';
import {type Context, type InputOf, type Operation, perform, Refused} from '../resources/operation.ts';
import {compileCheck} from '../resources/validate.ts';
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
			const value = read ? read(visit) : sent(input, visit);
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

/** The fields that a form sent, without space around them, and the parameters of its path. */
function sent({properties = {}}: TSchema & {properties?: object}, {form, params}: Visit): object {
	const fields = Object.keys(properties).map(name => [name, form.get(name)?.trim() ?? '']);
	return {...Object.fromEntries(fields), ...params};
}
