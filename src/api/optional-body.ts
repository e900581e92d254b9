import type {FastifyRequest, FastifySchemaCompiler} from 'fastify';
import type {TSchema} from 'typebox';
import {Type} from '../mail/type.ts';
import {bodyMissing} from './errors.ts';
import type {Checks} from './validate.ts';

/** The body of what takes no fields. */
export const emptyBody = Type.Object({}, {additionalProperties: false, examples: [{}]});

/** A validator for routes with an optional body: no body means the same as an empty object. */
export function optionalBody(checks: Checks): FastifySchemaCompiler<TSchema> {
	return ({schema, httpPart}) => {
		const check = checks.compiler(schema, httpPart);
		return value => (httpPart === 'body' && value === null ? {value} : check(value));
	};
}

/** JSON without any text in it is no body: to be called by such a route. */
export function checkBody({headers, body}: FastifyRequest): void {
	if (headers['content-type'] !== undefined && !body) {
		throw bodyMissing();
	}
}
