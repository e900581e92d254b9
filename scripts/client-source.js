// Generates the client's source from the OpenAPI document. scripts/client.js calls `clientSource`.

/** `/v1/unsubscribe-groups/{id}` → noun `unsubscribeGroups`, rest `{id}`. */
const placeOf = path => {
	const [, version, noun, ...rest] = path.split('/');
	return version === 'v1' && noun ? {noun: camel(noun), rest} : null;
};

const camel = text => text.replace(/-(\w)/g, (_all, letter) => letter.toUpperCase());
const pascal = text => camel(text).replace(/^./, letter => letter.toUpperCase());
const singular = noun => pascal(noun).replace(/ies$/, 'y').replace(/s$/, '');

/** Returns the name of a method: the customary verb for a collection or item, or the last word of the path. */
function nameOf(verb, {noun, rest}, operation) {
	const last = rest.findLast(part => !part.startsWith('{'));
	if (answerOf(operation)?.media === 'text/event-stream') {
		return 'stream';
	}
	if (last === undefined) {
		const isItem = rest.length > 0;
		const isList = itemOf(operation) !== null;
		const usual = {
			get: isItem || !isList ? 'get' : 'list',
			delete: 'delete',
			patch: 'update',
			post: 'create',
			put: 'save',
		}[verb];
		return noun === 'messages' && verb === 'post' ? 'send' : `${usual}`;
	}
	const isItem = rest.at(-1)?.startsWith('{');
	const name = isItem ? camel(last).replace(/s$/, '') : camel(last);
	const makes = verb === 'post' && last.endsWith('s');
	const about = rest[0] === last || rest[0]?.startsWith('{') ? '' : singular(`${rest[0]}`);
	return makes ? `create${singular(last)}` : `${name}${about}`;
}

/** Returns a schema as a TypeScript type. Optional fields of requests also accept `undefined` and `null`. */
function typeOf(schema, named, asked = false) {
	const name = named.get(keyOf(schema));
	if (name !== undefined) {
		return name;
	}
	const inner = one => typeOf(one, named, asked);
	const union = schema.anyOf ?? schema.oneOf;
	if (union) {
		return union.map(inner).join(' | ');
	}
	if (schema.enum) {
		return schema.enum.map(value => (typeof value === 'string' ? `'${value}'` : String(value))).join(' | ');
	}
	const types = [schema.type ?? []].flat();
	if (types.length === 0) {
		return 'unknown';
	}
	return types.map(type => typeOfKind(type, schema, inner, asked)).join(' | ');
}

function typeOfKind(type, schema, inner, asked) {
	switch (type) {
		case 'integer':
			return 'number';
		case 'array': {
			const item = inner(schema.items ?? {});
			const array = item.includes(' | ') || item.startsWith('{') ? `Array<${item}>` : `${item}[]`;
			return asked
				? array.replace(/^Array</, 'ReadonlyArray<').replace(/^(?!ReadonlyArray<)/, 'readonly ')
				: array;
		}
		case 'object':
			return objectOf(schema, inner, asked);
		default:
			return type;
	}
}

function objectOf(schema, inner, asked) {
	const properties = Object.entries(schema.properties ?? {});
	if (properties.length === 0) {
		const value = typeof schema.additionalProperties === 'object' ? inner(schema.additionalProperties) : 'unknown';
		return `Record<string, ${value}>`;
	}
	const required = new Set(schema.required);
	const lines = properties.flatMap(([name, property]) => {
		const optional = !required.has(name);
		const more = asked && optional ? ' | null | undefined' : '';
		const label = /^\w+$/.test(name) ? name : `'${name}'`;
		return [...commentOf(property.description), `${label}${optional ? '?' : ''}: ${inner(property)}${more};`];
	});
	return `{\n${indented(lines)}\n}`;
}

const keyOf = schema => JSON.stringify(schema, (name, value) => (name === 'description' ? undefined : value));

function commentOf(text) {
	const lines = text?.replaceAll('*/', '* /').split('\n') ?? [];
	return lines.length > 1
		? ['/**', ...lines.map(line => ` * ${line}`.trimEnd()), ' */']
		: lines.map(line => `/** ${line} */`);
}

function indented(lines) {
	return lines
		.join('\n')
		.split('\n')
		.map(line => (line === '' ? line : `\t${line}`))
		.join('\n');
}

/** Returns the schema and media type of a successful response, or `null` if it has no body. */
function answerOf({responses}) {
	const [, success] = Object.entries(responses).find(([code]) => code.startsWith('2')) ?? [];
	const [media, body] = Object.entries(success?.content ?? {})[0] ?? [];
	return media === undefined ? null : {media, schema: body?.schema ?? {}};
}

/** Returns the schema of the items in a paginated list, or `null` if the operation is not one. */
function itemOf(operation) {
	const properties = answerOf(operation)?.schema.properties;
	return properties?.next_cursor && properties.data?.items ? properties.data.items : null;
}

/**
 * Returns the source of the package's entry `mailctl/client`: a type for each schema, and a method for each route that
 * requires a key.
 */
export function clientSource(document) {
	const methods = new Map();
	const named = new Map();
	const types = [];
	const declare = (name, schema, asked = false) => {
		const known = named.get(keyOf(schema));
		if (known === undefined || asked) {
			types.push(`export type ${name} = ${typeOf(schema, asked ? new Map() : named, asked)};`);
		}
		if (known === undefined && !asked) {
			named.set(keyOf(schema), name);
		}
	};
	for (const [path, operations] of Object.entries(document.paths)) {
		const place = placeOf(path);
		if (!place) {
			continue;
		}
		for (const [verb, operation] of Object.entries(operations)) {
			const name = nameOf(verb, place, operation);
			methods.set(place.noun, [...(methods.get(place.noun) ?? []), {name, verb, path, operation}]);
			const item = itemOf(operation);
			if (item && place.rest.length === 0) {
				declare(singular(place.noun), item);
			}
		}
	}
	const nouns = [...methods].map(([noun, all]) => {
		const texts = all.map(method => methodSource(noun, method, named, declare));
		return `readonly ${noun} = {\n${indented(texts)}\n};`;
	});
	const event = document.webhooks.event.post.requestBody.content['application/json'].schema;
	types.push(`/** The body of a webhook request. */\nexport type WebhookEvent = ${typeOf(event, named)};`);
	return `import {type CallOptions, type Items, Requests, type SendOptions, type Streamed, type StreamOptions} from './requests.ts';
import {verifyWebhook as verify} from './verify-webhook.ts';

export {MailctlError, type Violation} from './error.ts';
export type {CallOptions, ClientOptions, Items, Page, SendOptions, Streamed, StreamOptions} from './requests.ts';
export type {RequestHeaders} from './verify-webhook.ts';

${types.join('\n\n')}

/**
 * A client for the mailctl API with a method for each route:
 * \`new Mailctl({baseUrl, apiKey}).messages.send({from, to, templateId, data})\`. Failed calls reject with a
 * MailctlError.
 */
export class Mailctl extends Requests {
${indented([nouns.join('\n\n')])}
}

/**
 * Returns the event of a webhook after verifying its signature. \`rawBody\` is the unparsed request body.
 * During a secret's rotation, both secrets are valid. Throws a MailctlError (code \`bad_signature\`), to which you
 * should respond with 400.
 */
export const verifyWebhook = verify<WebhookEvent>;
`;
}

function methodSource(noun, {name, verb, path, operation}, named, declare) {
	const parameters = operation.parameters ?? [];
	const inPath = parameters.filter(one => one.in === 'path').map(one => `${one.name}: string`);
	const query = parameters.filter(one => one.in === 'query' && !['cursor', 'after'].includes(one.name));
	const about = `${singular(noun)}${pascal(name)}`;
	const item = itemOf(operation);
	const [bodyMedia, body] = Object.entries(operation.requestBody?.content ?? {})[0] ?? [];
	const isJson = bodyMedia === 'application/json';
	const given = [...inPath];
	if (body) {
		if (isJson) {
			declare(`${about}Body`, body.schema, true);
		}
		given.push(
			`body: ${isJson ? `${about}Body` : 'string'}${operation.requestBody?.required ? '' : isJson ? ' = {}' : ` = ''`}`,
		);
	}
	if (query.length > 0) {
		const properties = Object.fromEntries(
			query.map(one => [one.name, {...one.schema, description: one.description}]),
		);
		declare(`${about}Query`, {type: 'object', properties}, true);
		given.push(`query: ${about}Query = {}`);
	}
	const isSend = parameters.some(one => one.name === 'Idempotency-Key');
	given.push(`options: ${isSend ? 'SendOptions' : 'CallOptions'} = {}`);
	const target = `\`${path.replace(/\{(\w+)\}/g, (_all, id) => `\${encodeURIComponent(${id})}`)}\``;
	const rest = [
		query.length > 0 && 'query',
		body && 'body',
		body && !isJson && `media: '${bodyMedia}'`,
		isSend && 'once: true',
	]
		.filter(Boolean)
		.join(', ');
	const comment = commentOf([operation.summary, operation.description].filter(Boolean).join('.\n\n')).join('\n');
	if (item) {
		const type = named.get(keyOf(item)) ?? `${about}Item`;
		declare(type, item);
		return `${comment}\n${name}: (${given.join(', ')}): Items<${type}> =>\n\tthis.pages(${target}, {${query.length > 0 ? 'query' : ''}}, options),`;
	}
	const answer = answerOf(operation);
	if (answer?.media === 'text/event-stream') {
		const type = `${about}Item`;
		declare(type, answer.schema);
		return `${comment}\n${name}: (options: StreamOptions & ${about}Query = {}): AsyncGenerator<Streamed<${type}>, never> =>\n\tthis.stream(${target}, options),`;
	}
	const kind = answer === null ? 'nothing' : kindOf(answer.media);
	let type = {nothing: 'void', text: 'string', bytes: 'Uint8Array', json: `${about}Answer`}[kind];
	if (answer && kind === 'json') {
		type = named.get(keyOf(answer.schema)) ?? type;
		declare(type, answer.schema);
	}
	return `${comment}\n${name}: (${given.join(', ')}): Promise<${type}> =>\n\tthis.call('${verb.toUpperCase()}', ${target}, '${kind}', {${rest}}, options),`;
}

function kindOf(media) {
	if (media === 'application/json') {
		return 'json';
	}
	return media.startsWith('text/') ? 'text' : 'bytes';
}
