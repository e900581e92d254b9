/** As much of JSON Schema as the description of the API uses. */
export type JsonSchema = {
	readonly type?: string | readonly string[];
	readonly enum?: ReadonlyArray<string | number | boolean | null>;
	readonly anyOf?: readonly JsonSchema[];
	readonly oneOf?: readonly JsonSchema[];
	readonly items?: JsonSchema;
	readonly properties?: Readonly<Record<string, JsonSchema>>;
	readonly additionalProperties?: JsonSchema | boolean;
	readonly required?: readonly string[];
	readonly description?: string;
};

type Content = Readonly<Record<string, {readonly schema: JsonSchema}>>;

/** A route. */
export type Operation = {
	readonly summary: string;
	readonly description?: string;
	readonly parameters?: ReadonlyArray<{
		readonly name: string;
		readonly in: string;
		readonly schema: JsonSchema;
		readonly description?: string;
	}>;
	readonly requestBody?: {readonly required?: boolean; readonly content: Content};
	readonly responses: Readonly<Record<string, {readonly content?: Content}>>;
};

/** `/openapi.json`. */
export type ApiDocument = {
	readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
	readonly webhooks: {
		readonly event: {
			readonly post: {readonly requestBody: {readonly content: {'application/json': {schema: JsonSchema}}}};
		};
	};
};
