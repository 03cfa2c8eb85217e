"""An MJCF model with actuators of every kind on every kind of transmission."""

BODIES = """
<mujoco><option gravity="0 0 -9"/><worldbody><site name="anchor" pos="1 1 1"/>
<body name="trunk" pos="0 0 1"><freejoint name="free"/><geom size=".2 .1 .3" type="box"/>
  <site name="s0" pos=".1 .2 .3" euler="30 40 20"/>
  <body name="upper" pos=".1 .2 .3" gravcomp=".7"><joint name="ball" type="ball"/>
    <geom size=".1 .2" type="capsule" pos=".1 .2 .1"/>
    <body name="lower" pos=".1 0 .3"><joint name="hinge" axis="1 2 1" armature=".01" actuatorfrcrange="-2 2"/>
      <geom size=".1 .2" type="capsule"/><site name="s1" pos=".2 .1 .3" euler="10 20 30"/>
      <body name="tool" pos=".1 0 .3"><joint name="slide" type="slide" axis="1 0 1"/>
        <geom size=".1 .2" type="capsule"/>
        <site name="s2" pos=".2 .1 .3" euler="10 50 30"/></body></body></body>
  <body name="crank" pos="-.1 .2 .3"><joint name="turn" axis="0 1 0"/><geom size=".1 .2" type="capsule" pos=".1 .2 .1"/>
    <site name="s3" pos=".2 .1 .1"/></body>
</body></worldbody>
<tendon><spatial name="string" stiffness="10" damping="1"><site site="s0"/><site site="s2"/></spatial>
  <fixed name="sum"><joint joint="hinge" coef="2"/><joint joint="slide" coef="-1"/></fixed></tendon>
"""

ACTUATORS = """<actuator>
<motor joint="free" gear="1 2 3 4 5 6"/><motor jointinparent="free" gear="1 2 3 4 5 6"/>
<motor joint="ball" gear="1 2 3"/><motor jointinparent="ball" gear="1 2 3"/><position joint="ball" gear="1 .2 .3" kp="3"/>
<position name="servo" joint="hinge" kp="30" kv="2" ctrlrange="-1 1" gear="2"/>
<position name="lagging" joint="slide" kp="30" kv="2" timeconst=".2" forcerange="-3 3"/>
<velocity joint="turn" kv="3"/><intvelocity joint="turn" kp="2" actrange="-2 2"/><damper joint="turn" kv="2" ctrlrange="0 2"/>
<cylinder joint="slide" area="3" timeconst=".5" bias="1 2 3"/>
<muscle name="muscle" tendon="string" lengthrange=".4 1.2" force="20"/>
<muscle tendon="string" lengthrange=".4 1.2" timeconst=".02 .05" tausmooth=".4"/>
<motor tendon="sum" gear="4"/><position tendon="sum" kp="4" gear="2"/><motor name="thruster" site="s1" gear="1 2 3 4 5 6"/>
<position site="s1" refsite="s3" gear="1 2 3 0 0 0" kp="2"/><position site="s2" refsite="s3" gear="0 0 0 1 2 3" kp="2"/>
<position site="s2" refsite="anchor" gear="1 0 0 1 2 3" kp="2"/><position site="s2" refsite="s1" gear="1 0 0 1 2 3" kp="2"/>
<general cranksite="s2" slidersite="s3" cranklength="1.5" gear="2"/>
<general cranksite="s2" slidersite="s3" cranklength=".2" gear="2"/>
<general joint="hinge" gaintype="affine" gainprm="1 2 3" biastype="affine" biasprm="4 5 6"
  dyntype="filterexact" dynprm=".3"/>
</actuator>
"""

SENSORS = """<sensor>
<actuatorpos actuator="servo"/><actuatorvel actuator="thruster"/><actuatorfrc actuator="muscle"/><tendonpos tendon="string"/>
<tendonvel tendon="sum"/><tendonactuatorfrc tendon="sum"/><tendonactuatorfrc tendon="string"/><jointactuatorfrc joint="hinge"/>
<accelerometer site="s1"/><force site="s1"/><torque site="s2"/>
</sensor>
"""

XML = BODIES + ACTUATORS + SENSORS + "</mujoco>"
