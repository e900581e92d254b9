import {Ajv2020, type Options, type ValidateFunction} from 'ajv/dist/2020.js';

export type Media = {
	readonly schema: object;
	readonly example?: unknown;
	readonly examples?: Readonly<Record<string, {readonly value: unknown}>>;
};
export type Operation = {
	readonly operationId: string;
	readonly summary: string;
	readonly tags: readonly string[];
	readonly security?: readonly object[];
	readonly parameters?: ReadonlyArray<{readonly name: string; readonly in: string; readonly description?: string}>;
	readonly requestBody?: {readonly content: Readonly<Record<string, Media>>};
	readonly responses: Readonly<
		Record<string, {readonly description: string; readonly content?: Readonly<Record<string, Media>>}>
	>;
};
/** What tests read of /openapi.json. */
export type ApiDocument = {readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>};

export type Described = {readonly method: string; readonly path: string; readonly operation: Operation};

/** Every operation of the description. */
export function operationsOf({paths}: ApiDocument): Described[] {
	return Object.entries(paths).flatMap(([path, methods]) =>
		Object.entries(methods).map(([method, operation]) => ({method: method.toUpperCase(), path, operation})),
	);
}

/** Says how an answer differs from its description, null: it does not, or its path is not described. */
export type AnswerCheck = (method: string, path: string, status: number, body: unknown) => string | null;

export function createAnswerCheck(document: ApiDocument): AnswerCheck {
	// `test/api/openapi.test.ts` checks the schemas themselves.
	const ajv = createSchemaReader({validateSchema: false});
	const validators = new Map<object, ValidateFunction>();
	// A path without parameters goes before one whose parameter would take its last part.
	const routes = operationsOf(document)
		.map(one => ({...one, pattern: new RegExp(`^${one.path.replaceAll(/\{[^}]+\}/g, '[^/]+')}$`)}))
		.toSorted((a, b) => a.path.split('{').length - b.path.split('{').length);

	return (method, target, status, body) => {
		const [path = ''] = target.split('?');
		const route = routes.find(one => one.method === method && one.pattern.test(path));
		if (!route) {
			return null;
		}
		const name = `${method} ${route.path} ${status}`;
		const response = route.operation.responses[status];
		if (!response) {
			return `${name} is not described: ${JSON.stringify(body)}`;
		}
		const schema = response.content?.['application/json']?.schema;
		if (!schema) {
			return null;
		}
		const validate = validators.get(schema) ?? ajv.compile(schema);
		validators.set(schema, validate);
		return validate(body) ? null : `${name} is not as described: ${ajv.errorsText(validate.errors)}`;
	};
}

/** Reads JSON Schema 2020-12 as descriptions of APIs use it; formats only annotate there. */
export function createSchemaReader(options: Options = {}): Ajv2020 {
	return new Ajv2020({...options, strict: false, validateFormats: false, allErrors: true});
}
