import type {Logger} from 'pino';
import type {SiteChange} from '../pace/site.ts';
import type {Site} from '../queue/site.ts';

/** Tells the operator of a smarthost that refuses us, once, and that it takes mail again; of other sites what they wait for. */
export function logSite(logger: Logger, {name, state}: Site, changes: readonly SiteChange[]): void {
	const reason = state.suspension?.reason;
	if (changes.includes('route_stopped')) {
		const text =
			'A smarthost refuses us: its mail waits, none is lost. Check its address and password (mailctl doctor).';
		logger.error({event: 'route_stopped', site: name, reply: reason}, text);
	} else if (changes.includes('route_resumed')) {
		logger.error({event: 'route_resumed', site: name}, 'The smarthost takes mail again.');
	} else if (changes.includes('suspended')) {
		logger.info({event: 'site_suspended', site: name, reply: reason});
	} else if (changes.includes('resumed')) {
		logger.info({event: 'site_resumed', site: name});
	}
}
