import type {Routes} from '../api/api-parts.ts';

/**
 * Answers CAs that look for the proof of a name (RFC 8555 §8.3), which one of the nodes asks a certificate for. Others
 * learn nothing: a token is known to the CA alone.
 */
export function challengeRoutes(proofOf: (token: string) => Promise<string | undefined>): Routes {
	return api => {
		const path = '/.well-known/acme-challenge/:token';
		api.get<{Params: {token: string}}>(path, {schema: {hide: true}}, async (request, reply) => {
			const proof = await proofOf(request.params.token);
			reply.header('cache-control', 'no-store').type('text/plain');
			return reply.code(proof === undefined ? 404 : 200).send(proof ?? 'No such challenge.');
		});
	};
}
