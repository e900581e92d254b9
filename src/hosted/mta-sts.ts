import type {FastifySchema} from 'fastify';
import type {Routes} from '../api/api-parts.ts';
import {apiError} from '../mail/api-error.ts';
import type {OwnPolicy} from '../resources/domains/mta-sts-policy.ts';

type PolicyParts = {
	/** Returns `null` if no policy is published. */
	readonly policy: () => Promise<OwnPolicy | null>;
	/** Whether the host accepts mail for this installation. Anyone can request this, so it must not use the store. */
	readonly isOurs: (host: string) => Promise<boolean>;
};

const prefix = 'mta-sts.';

/** Serves the MTA-STS policy of each host of this installation that accepts mail (RFC 8461 §3.3). */
export function policyRoutes({policy, isOurs}: PolicyParts): Routes {
	return api => {
		api.get('/.well-known/mta-sts.txt', {schema: {hide: true} as FastifySchema}, async ({hostname}, reply) => {
			const host = hostname.toLowerCase().replace(/\.$/, '');
			const mtaSts = host.startsWith(prefix) && (await isOurs(host.slice(prefix.length))) ? await policy() : null;
			if (mtaSts === null) {
				throw apiError('not_found');
			}
			return reply.type('text/plain; charset=utf-8').send(mtaSts.text);
		});
	};
}
