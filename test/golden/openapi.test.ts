import {createHash} from 'node:crypto';
import test from 'ava';
import {startApi} from '../helpers/api.ts';
import {newStore} from '../helpers/databases.ts';
import type {Operation} from '../helpers/described.ts';
import {matchesGolden, sortedJson} from '../helpers/transcript.ts';

// The golden file has a block for each operation, with a line for each parameter and property, so that its diff shows
// what changed for clients.

type Json = {readonly [name: string]: unknown};
type Response = {readonly headers?: Json; readonly content?: Readonly<Record<string, {readonly schema: Json}>>};
type Paths = Readonly<Record<string, Readonly<Record<string, Operation>>>>;
type Document = {readonly paths: Paths; readonly webhooks: Paths};

const texts = new Set(['description', 'summary', 'title', 'example', 'examples', '$id']);
const nested = new Set(['properties', 'required', 'items', 'anyOf', 'oneOf', 'allOf']);

/** Returns a line for each property of a schema: its path, `?` if it is optional, and the keywords that restrict it. */
function linesOf(schema: Json, path = '', suffix = ''): string[] {
	const keywords = Object.entries(schema)
		.filter(([name]) => !texts.has(name) && !nested.has(name))
		.toSorted(([a], [b]) => (a < b ? -1 : 1))
		.map(([name, value]) => (name === 'type' ? String(value) : `${name}=${JSON.stringify(value)}`));
	const required = new Set((schema.required ?? []) as string[]);
	const properties = Object.entries((schema.properties ?? {}) as Readonly<Record<string, Json>>);
	return [
		`${path === '' ? '.' : path}${suffix} ${keywords.join(' ')}`.trimEnd(),
		...properties.flatMap(([name, each]) => linesOf(each, `${path}.${name}`, required.has(name) ? '' : '?')),
		...(schema.items ? linesOf(schema.items as Json, `${path}[]`) : []),
		...['anyOf', 'oneOf', 'allOf'].flatMap(kind =>
			((schema[kind] ?? []) as Json[]).flatMap((each, at) => linesOf(each, `${path}(${kind} ${at + 1})`)),
		),
	];
}

const digest = (value: unknown) => createHash('sha256').update(sortedJson(value)).digest('hex').slice(0, 12);

/** Returns a function that describes operations. A schema that was described before becomes a reference. */
function createDescribe(): (name: string, operation: Operation) => string {
	const shown = new Map<string, string>();

	function body(where: string, content: Response['content'] = {}): string[] {
		return Object.entries(content).flatMap(([type, {schema, ...media}]) => {
			const codes = Object.keys((media as {examples?: Json}).examples ?? {});
			const head = `    ${type}${codes.length > 0 ? `: ${codes.join(', ')}` : ''}`;
			const lines = linesOf(schema).map(line => `      ${line}`);
			const before = shown.get(lines.join('\n'));
			shown.set(lines.join('\n'), before ?? where);
			return [head, ...(before && lines.length > 1 ? [`      as ${before}`] : lines)];
		});
	}

	return (name, {operationId, tags, security, parameters = [], requestBody, responses, ...rest}) => {
		const answers = Object.entries(responses as Readonly<Record<string, Response>>);
		const request = requestBody as (Operation['requestBody'] & {readonly required?: boolean}) | undefined;
		const [, scope] = /Needs the scope `([\w:]+)`/.exec(String((rest as Json).description)) ?? [];
		const whole = {operationId, tags, security, parameters, requestBody, responses, ...rest};
		return [
			`${name}: ${operationId} [${tags?.join()}] ${security ? `needs ${scope}` : 'needs no key'}`,
			...parameters.map(parameter => {
				const {
					in: place,
					name: field,
					required,
					schema,
				} = parameter as typeof parameter & {
					readonly required?: boolean;
					readonly schema: Json;
				};
				return `  ${place} ${linesOf(schema, field, required ? '' : '?').join('; ')}`;
			}),
			...(request ? [`  request${request.required ? '' : ', optional'}`] : []),
			...body(`${name} request`, request?.content as Response['content']),
			...answers.flatMap(([status, {headers = {}, content}]) => [
				`  ${status} ${Object.keys(headers).join(', ')}`.trimEnd(),
				...body(`${name} ${status}`, content),
			]),
			// Descriptions and examples have no lines; the digest covers them.
			`  digest ${digest(whole)}`,
		].join('\n');
	};
}

test('the API description is the recorded one', async t => {
	const {base} = await startApi(t, await newStore(t, 'sqlite'));
	const {paths, webhooks, ...rest} = (await (await fetch(`${base}/openapi.json`)).json()) as Document;
	const describe = createDescribe();
	const blocks = [...Object.entries(paths), ...Object.entries(webhooks)].flatMap(([path, methods]) =>
		Object.entries(methods).map(([method, operation]) => describe(`${method.toUpperCase()} ${path}`, operation)),
	);
	matchesGolden(t, 'openapi.txt', `${[...blocks, `the rest: digest ${digest(rest)}`].join('\n\n')}\n`);
});
