import {Validator} from '@seriousme/openapi-schema-validator';
import test, {type ExecutionContext} from 'ava';
import {apiErrors} from '../../src/mail/api-error.ts';
import {startApi} from '../helpers/api.ts';
import {newStore} from '../helpers/databases.ts';
import {type ApiDocument, createSchemaReader, operationsOf} from '../helpers/described.ts';

let document: Promise<ApiDocument> | undefined;

function documentOf(t: ExecutionContext): Promise<ApiDocument> {
	document ??= readDocument(t);
	return document;
}

async function readDocument(t: ExecutionContext): Promise<ApiDocument> {
	const {base} = await startApi(t, await newStore(t, 'sqlite'));
	const response = await fetch(`${base}/openapi.json`);
	t.is(response.status, 200);
	t.regex(response.headers.get('content-type') ?? '', /^application\/json/);
	return (await response.json()) as ApiDocument;
}

test('/openapi.json is valid OpenAPI 3.1', async t => {
	const validator = new Validator();
	t.like(await validator.validate(await documentOf(t)), {valid: true});
	t.is(validator.version, '3.1');
});

test('every operation has a unique id, a summary, a tag and its required scope', async t => {
	const operations = operationsOf(await documentOf(t));
	const ids = operations.map(({operation}) => operation.operationId);
	t.deepEqual(ids.toSorted(), [...new Set(ids)].toSorted());
	for (const {method, path, operation} of operations) {
		t.regex(operation.summary, /^[A-Z][^.]+$/, `${method} ${path}`);
		t.is(operation.tags.length, 1, `${method} ${path}`);
		t.is(path.startsWith('/v1/'), operation.security !== undefined, `${method} ${path}`);
	}
});

test('describes every parameter and every field of a request', async t => {
	const undescribed: string[] = [];
	const visit = (schema: Record<string, unknown>, where: string): void => {
		for (const [name, field] of Object.entries(
			(schema.properties ?? {}) as Record<string, Record<string, unknown>>,
		)) {
			if (typeof field.description !== 'string') {
				undescribed.push(`${where}.${name}`);
			}
			visit(field, `${where}.${name}`);
		}
		if (schema.items) {
			visit(schema.items as Record<string, unknown>, `${where}[]`);
		}
	};
	for (const {method, path, operation} of operationsOf(await documentOf(t))) {
		const where = `${method} ${path}`;
		for (const parameter of operation.parameters ?? []) {
			if (!parameter.description) {
				undescribed.push(`${where} ${parameter.name}`);
			}
		}
		for (const {schema} of Object.values(operation.requestBody?.content ?? {})) {
			visit(schema as Record<string, unknown>, where);
		}
	}
	t.deepEqual(undescribed, []);
});

test('every body has an example, and every example matches its schema', async t => {
	const ajv = createSchemaReader();
	const missing: string[] = [];
	for (const {method, path, operation} of operationsOf(await documentOf(t))) {
		const bodies = [
			...Object.values(operation.requestBody?.content ?? {}).map(
				media => [`${method} ${path} request`, media] as const,
			),
			...Object.entries(operation.responses).flatMap(([status, {content = {}}]) =>
				Object.entries(content)
					.filter(([type]) => type === 'application/json')
					.map(([, media]) => [`${method} ${path} ${status}`, media] as const),
			),
		];
		for (const [where, media] of bodies) {
			const named = Object.values(media.examples ?? {}).map(({value}) => value);
			const own = [media.example, ...((media.schema as {examples?: unknown[]}).examples ?? [])];
			const examples = [...named, ...own].filter(example => example !== undefined);
			if (examples.length === 0) {
				missing.push(where);
			}
			for (const example of examples) {
				t.true(ajv.validate(media.schema, example), `${where}: ${ajv.errorsText()}`);
			}
		}
	}
	t.deepEqual(missing, []);
});

test('lists every error of a route under its status, with an example', async t => {
	for (const {method, path, operation} of operationsOf(await documentOf(t))) {
		for (const [status, {content}] of Object.entries(operation.responses)) {
			for (const [code, {value}] of Object.entries(content?.['application/json']?.examples ?? {})) {
				const where = `${method} ${path} ${status} ${code}`;
				t.is(String(apiErrors[code as keyof typeof apiErrors].status), status, where);
				t.is((value as {error: {code: string}}).error.code, code, where);
			}
		}
	}
});
