import type {Source} from '../mail/way.ts';
import type {Hello} from './hello.ts';
import type {Route} from './route.ts';
import type {Session} from './session.ts';

/** One conversation to have with one host. */
export type Plan = {
	readonly route: Route;
	/** An idle session to have it on; null: open one. */
	readonly session: Session | null;
	readonly source: Source | undefined;
	readonly hello: Hello;
	readonly basic: boolean;
};
