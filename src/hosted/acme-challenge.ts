import type {Routes} from '../api/api-parts.ts';

/**
 * Serves the response to an ACME HTTP-01 challenge (RFC 8555 §8.3), whichever node ordered the certificate. It reveals
 * nothing to others, because only the CA knows the token.
 */
export function challengeRoutes(findProof: (token: string) => Promise<string | undefined>): Routes {
	return api => {
		const path = '/.well-known/acme-challenge/:token';
		api.get<{Params: {token: string}}>(path, {schema: {hide: true}}, async (request, reply) => {
			const proof = await findProof(request.params.token);
			reply.header('cache-control', 'no-store').type('text/plain');
			return reply.code(proof === undefined ? 404 : 200).send(proof ?? 'Challenge not found.');
		});
	};
}
