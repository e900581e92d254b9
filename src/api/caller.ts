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

/** Of which mode the messages, webhooks and deliveries must be that a key may see; undefined: of any. */
export function visibleMode({mode}: Caller): 'test' | undefined {
	return mode === 'test' ? mode : undefined;
}

declare module 'fastify' {
	interface FastifyRequest {
		/** Set on every route that asked for a scope. */
		caller: Caller | null;
	}
}
