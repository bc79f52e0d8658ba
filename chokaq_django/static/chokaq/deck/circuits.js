// The circuits.

import { html, mount } from "./components.js";
import { Circuits } from "./panels/circuits.js";

mount("chokaq-panels", html`<${Circuits} full />`);
