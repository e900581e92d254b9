import {writeFileSync} from 'node:fs';
import {mailctl} from './commands.ts';
import {cliPage} from './docs.ts';

writeFileSync('docs/reference/cli.md', cliPage(await mailctl()));
