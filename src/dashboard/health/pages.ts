import type {DashboardParts} from '../parts.ts';
import type {Route} from '../route.ts';
import {checksPages} from './checks.ts';
import {logPages} from './log.ts';
import type {MadeChecks} from './made-checks.ts';
import {overviewPages} from './overview.ts';
import {settingsPages} from './settings.ts';

/** How the installation is doing. */
export const healthPages = (parts: DashboardParts, checks: MadeChecks): readonly Route[] => [
	...overviewPages(parts),
	...checksPages(checks),
	...logPages(parts),
	...settingsPages(parts),
];
