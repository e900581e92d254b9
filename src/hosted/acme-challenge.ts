import type {Knex} from 'knex';
import type {Routes} from '../api/api-parts.ts';
import type {Clock} from '../kit/clock.ts';
import {storeTime} from '../kit/time.ts';
import {findHttpChallenge} from '../store/certificates.ts';

/** Where a CA finds the proof of a name that one of the nodes asks a certificate for (RFC 8555 §8.3). */
export const challengePath = '/.well-known/acme-challenge/:token';

/** Answers CAs. Others learn nothing: a token is known to the CA alone. */
export function challengeRoutes({reader, clock}: {readonly reader: Knex; readonly clock: Clock}): Routes {
	return api => {
		api.get<{Params: {token: string}}>(challengePath, {schema: {hide: true}}, async (request, reply) => {
			const challenge = await findHttpChallenge(reader, request.params.token, storeTime(clock.now()));
			reply.header('cache-control', 'no-store').type('text/plain');
			return reply.code(challenge ? 200 : 404).send(challenge?.key_authorization ?? 'No such challenge.');
		});
	};
}
