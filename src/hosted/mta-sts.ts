import type {FastifySchema} from 'fastify';
import type {Routes} from '../api/api-parts.ts';
import {apiError} from '../api/errors.ts';
import type {OwnPolicy} from '../mta-sts/own-policy.ts';

type PolicyParts = {
	/** Null: there is no policy. */
	readonly policy: () => Promise<OwnPolicy | null>;
	/** Whether a host of ours takes mail. Strangers ask, so that it has to be known without the store. */
	readonly isOurs: (host: string) => Promise<boolean>;
};

const prefix = 'mta-sts.';

/** The policy of each host of ours that takes mail, at its own name (RFC 8461 §3.3). */
export function policyRoutes({policy, isOurs}: PolicyParts): Routes {
	return api => {
		api.get('/.well-known/mta-sts.txt', {schema: {hide: true} as FastifySchema}, async ({hostname}, reply) => {
			const host = hostname.toLowerCase().replace(/\.$/, '');
			const own = host.startsWith(prefix) && (await isOurs(host.slice(prefix.length))) ? await policy() : null;
			if (own === null) {
				throw apiError('not_found');
			}
			return reply.type('text/plain; charset=utf-8').send(own.text);
		});
	};
}
