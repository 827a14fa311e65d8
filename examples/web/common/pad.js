// A pad for pointing: with a mouse, a finger or a pen, or with the arrow keys and Space.

import { say } from "./common.js";

/** The distance that an arrow key moves the cursor. */
const STEP = 1 / 32;
const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

/**
 * Makes an element a pad. The element must be positioned and focusable, and its description must explain the keys.
 *
 * Coordinates go from 0 to 1, from the left and from the top.
 *
 * @param area The element.
 * @param acts `down(x, y)` runs when the pointer or Space is pressed, `move(x, y)` at each point that it moves to while
 *   pressed, and `up()` when it is released. Without `move`, presses aren't held, and `up` doesn't run.
 */
export function pad(area, { down, move, up = () => undefined }) {
  const cursor = area.appendChild(document.createElement("span"));
  cursor.className = "cursor";
  const at = [0.5, 0.5];
  let isDown = false;

  const showCursor = () => {
    cursor.style.left = `${100 * at[0]}%`;
    cursor.style.top = `${100 * at[1]}%`;
    area.toggleAttribute("data-down", isDown);
  };
  const inside = (place) => Math.min(Math.max(place, 0), 1);
  const placeOf = ({ clientX, clientY }) => {
    const { left, top, width, height } = area.getBoundingClientRect();
    return [inside((clientX - left) / width), inside((clientY - top) / height)];
  };
  const run = async (act, place = []) => {
    try {
      await act(...place);
    } catch (error) {
      say(error.message);
    }
  };
  const lift = () => {
    if (isDown) run(up);
    isDown = false;
    showCursor();
  };

  area.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    area.setPointerCapture(event.pointerId);
    run(down, placeOf(event));
    isDown = move !== undefined;
  });
  area.addEventListener("pointermove", (event) => {
    if (!isDown || !area.hasPointerCapture(event.pointerId)) return;
    for (const one of event.getCoalescedEvents?.() ?? []) run(move, placeOf(one));
    run(move, placeOf(event));
  });
  for (const end of ["pointerup", "pointercancel", "blur"]) area.addEventListener(end, lift);
  area.addEventListener("keydown", (event) => {
    const arrow = ARROWS[event.key];
    if (arrow) {
      arrow.forEach((sign, axis) => (at[axis] = inside(at[axis] + sign * STEP * (event.shiftKey ? 4 : 1))));
      if (isDown) run(move, at);
    } else if (event.key === " " && !event.repeat) {
      if (isDown) lift();
      else {
        run(down, at);
        isDown = move !== undefined;
      }
    } else return;
    event.preventDefault();
    showCursor();
  });
  showCursor();
}
