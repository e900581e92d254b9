// Formats and keywords of our own say nothing to others; their meaning stands in the descriptions.
const ownKeywords = new Set(['variables', 'contentEncoding']);
const knownFormats = new Set(['email', 'uri', 'date-time']);
const emailFormats = new Set(['email', 'recipient-email', 'query-email', 'query-recipient-email']);

/** A copy of a schema with nothing but standard JSON Schema in it. */
export function plainSchema(schema: unknown): unknown {
	if (Array.isArray(schema)) {
		return schema.map(plainSchema);
	}
	if (typeof schema !== 'object' || schema === null) {
		return schema;
	}
	return Object.fromEntries(
		Object.entries(schema).flatMap(([name, value]) => {
			if (ownKeywords.has(name) && typeof value !== 'object') {
				return [];
			}
			if (name === 'format' && typeof value === 'string') {
				const format = emailFormats.has(value) ? 'email' : value;
				return knownFormats.has(format) ? [[name, format]] : [];
			}
			return [[name, plainSchema(value)]];
		}),
	);
}
