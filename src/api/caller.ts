import type {Mode} from '../mail/message.ts';

/** Whose request it is: what a valid key stands for. */
export type Caller = {
	readonly keyId: string;
	readonly workspaceId: string;
	readonly mode: Mode;
	readonly scopes: readonly string[];
	/** The key's own (`requests/seconds`); null: the usual one. */
	readonly rateLimit: string | null;
};

declare module 'fastify' {
	interface FastifyRequest {
		/** Set on every route that asked for a scope. */
		caller: Caller | null;
	}
}
